package secure

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
)

// workloadPatience is how long the first answer of a Workload API may take.
const workloadPatience = 10 * time.Second

// Workload is what a SPIFFE Workload API says: this program's certificate, and the
// bundles of the trust domains that it may meet. It pushes what changes; while it is
// away, what it said last stays. All methods are safe for concurrent use.
type Workload struct {
	// Fixed after construction.
	address string
	client  *workloadapi.Client
	log     *slog.Logger
	end     context.CancelFunc
	ended   chan struct{} // closed when nothing runs any more
	first   chan struct{} // closed with the first answer

	// Atomic.
	state atomic.Pointer[workloadapi.X509Context]
	away  atomic.Bool // it was logged that there is no answer
}

// CheckWorkload tells what is wrong with the address of a Workload API.
func CheckWorkload(address string) error { return workloadapi.ValidateAddress(address) }

// DialWorkload connects with the Workload API at an address, like
// unix:///run/spire/agent.sock, and waits for its first answer. Close ends it.
func DialWorkload(address string, log *slog.Logger) (*Workload, error) {
	ctx, end := context.WithCancel(context.Background())
	client, err := workloadapi.New(ctx, workloadapi.WithAddr(address))
	if err != nil {
		end()
		return nil, fmt.Errorf("Workload API at %s: %w", address, err)
	}
	w := &Workload{address: address, client: client, log: log, end: end, ended: make(chan struct{}), first: make(chan struct{})}
	failed := make(chan error, 1)
	go func() {
		defer close(w.ended)
		failed <- client.WatchX509Context(ctx, w)
	}()
	timer := time.NewTimer(workloadPatience)
	defer timer.Stop()
	select {
	case <-w.first:
		return w, nil
	case err = <-failed: // it gives up only where a new attempt makes no sense
	case <-timer.C:
		err = fmt.Errorf("no certificate within %s", workloadPatience)
	}
	w.Close()
	return nil, fmt.Errorf("Workload API at %s: %w; expected an X.509 SVID for this process", address, err)
}

// OnX509ContextUpdate takes what has changed.
func (w *Workload) OnX509ContextUpdate(c *workloadapi.X509Context) {
	if w.state.Swap(c) == nil {
		close(w.first)
	}
	if w.away.Swap(false) {
		w.log.Info("the Workload API answers again", "address", w.address)
	}
}

// OnX509ContextWatchError notes that it does not answer. It is asked again.
func (w *Workload) OnX509ContextWatchError(err error) {
	if !w.away.Swap(true) {
		w.log.Error("the Workload API does not answer; keeping its last response", "address", w.address, "error", err)
	}
}

// Close ends the connection. What was said last stays.
func (w *Workload) Close() {
	w.end()
	<-w.ended
	_ = w.client.Close() // there is nothing to be done about it
}

// current is what it said last; nil for a nil w.
func (w *Workload) current() *workloadapi.X509Context {
	if w == nil {
		return nil
	}
	return w.state.Load()
}

// certificateOf is a certificate in the form that TLS wants.
func certificateOf(s *x509svid.SVID) tls.Certificate {
	c := tls.Certificate{PrivateKey: s.PrivateKey, Leaf: s.Certificates[0]}
	for _, cert := range s.Certificates {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c
}
