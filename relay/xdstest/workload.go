package xdstest

import (
	"context"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// WorkloadAPI is a SPIFFE Workload API on a Unix socket, which gives the same
// certificate to all who ask. All methods but Start and Stop are safe for concurrent
// use.
type WorkloadAPI struct {
	workload.UnimplementedSpiffeWorkloadAPIServer

	// Fixed after construction.
	t    TB
	path string

	stop func() // since Start

	mu sync.Mutex
	// Guarded by mu.
	answer  *workload.X509SVIDResponse
	changed chan struct{} // closed and replaced with answer
}

// NewWorkloadAPI starts an API that ends with the test. Nobody is answered before
// [WorkloadAPI.Set].
func NewWorkloadAPI(t TB) *WorkloadAPI {
	t.Helper()
	dir, err := os.MkdirTemp("", "workload") // short enough for a socket's path
	if err != nil {
		t.Fatalf("Workload API: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	a := &WorkloadAPI{t: t, path: filepath.Join(dir, "agent.sock"), changed: make(chan struct{})}
	t.Cleanup(func() { a.Stop() })
	a.Start()
	return a
}

// Address is where it is, in the form that programs are told.
func (a *WorkloadAPI) Address() string { return "unix://" + a.path }

// Start begins to answer, also after Stop.
func (a *WorkloadAPI) Start() {
	a.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", a.path)
	if err != nil {
		a.t.Fatalf("Workload API: %v", err)
	}
	g := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(g, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	a.stop = sync.OnceFunc(func() { g.Stop(); <-done })
}

// Stop ends all connections and takes no more. It may be called again.
func (a *WorkloadAPI) Stop() { a.stop() }

// Set gives a certificate by an authority for a SPIFFE id to all who ask, with that
// authority and those in also for the id's trust domain, and those of other domains.
func (a *WorkloadAPI) Set(id string, by *Authority, others map[string]*Authority, also ...*Authority) {
	a.t.Helper()
	cert, key := by.Issue(id)
	der := func(content []byte) []byte { block, _ := pem.Decode(content); return block.Bytes }
	bundle := slices.Clone(by.Certificate().Raw)
	for _, one := range also {
		bundle = append(bundle, one.Certificate().Raw...)
	}
	r := &workload.X509SVIDResponse{
		Svids:            []*workload.X509SVID{{SpiffeId: id, X509Svid: der(cert), X509SvidKey: der(key), Bundle: bundle}},
		FederatedBundles: make(map[string][]byte),
	}
	for domain, of := range others {
		r.FederatedBundles["spiffe://"+domain] = of.Certificate().Raw
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = r
	close(a.changed)
	a.changed = make(chan struct{})
}

// FetchX509SVID answers now and with each change.
func (a *WorkloadAPI) FetchX509SVID(_ *workload.X509SVIDRequest, s workload.SpiffeWorkloadAPI_FetchX509SVIDServer) error {
	if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get("workload.spiffe.io")) == 0 {
		return status.Error(codes.InvalidArgument, "the header is missing")
	}
	for {
		a.mu.Lock()
		answer, changed := a.answer, a.changed
		a.mu.Unlock()
		if answer != nil {
			if err := s.Send(answer); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-s.Context().Done():
			return context.Cause(s.Context())
		}
	}
}
