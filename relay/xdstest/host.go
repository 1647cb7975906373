package xdstest

import (
	"crypto/tls"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// host is what a scripted and an automatic control plane have in common: where
// they listen, who watches, and what was said.
type host struct {
	srv  *server                    // fixed
	log  *Transcript                // fixed
	load atomic.Pointer[LoadOrigin] // nil as long as there is no such service

	watchMu sync.Mutex
	watch   func(Event) // guarded by watchMu; nil for nobody
}

// listen starts to serve discovery streams on a network, or on one of its hosts.
func (h *host) listen(t TB, at place, handle func(Variant, grpc.ServerStream) error) {
	t.Helper()
	h.srv = newServer(t, at, func(g *grpc.Server) {
		registerDiscovery(g, handle)
		registerLoad(g, &h.load)
	})
	if err := h.Start(); err != nil {
		t.Fatalf("%v", err)
	}
}

// Addr is where the origin listens, "127.0.0.1:port", the same for its life.
func (h *host) Addr() string { return h.srv.addr() }

// Stop cuts all streams and refuses connections until Start. An automatic origin
// keeps its resources and versions.
func (h *host) Stop() {
	h.log.add("origin stopped")
	h.srv.stop()
}

// Start accepts connections again, at the same address.
func (h *host) Start() error {
	h.log.add("origin started")
	return h.srv.start()
}

// Secure makes the origin speak TLS from now on. Streams are cut.
func (h *host) Secure(cfg *tls.Config) error {
	h.Stop()
	h.srv.mu.Lock()
	h.srv.tls = cfg
	h.srv.mu.Unlock()
	return h.Start()
}

// PermitPings lets clients send keepalive pings each second from now on. Streams are
// cut.
func (h *host) PermitPings() error {
	h.Stop()
	h.srv.mu.Lock()
	h.srv.pinged = true
	h.srv.mu.Unlock()
	return h.Start()
}

// Transcript is the conversation so far, for a test's own messages.
func (h *host) Transcript() string { return h.log.String() }

// ShareTranscript lets what is said go into a transcript of several parts from
// now on, marked with a name.
func (h *host) ShareTranscript(into *Transcript, as string) { h.log.share(into, as) }

// ServeLoad makes the origin take load reports. Before, it answers UNIMPLEMENTED
// as a server without that service does. What is asked for is up to the test, with
// an automatic origin, too. It is called once.
func (h *host) ServeLoad() *LoadOrigin {
	l := newLoadOrigin(h.log)
	h.load.Store(l)
	return l
}

// Watch calls f for all that clients do from now on, before it is answered, and for
// the responses of a [StateOrigin], before they are sent, each stream's events in
// their order; streams call it concurrently. f must not block.
func (h *host) Watch(f func(Event)) {
	h.watchMu.Lock()
	defer h.watchMu.Unlock()
	h.watch = f
}

func (h *host) notify(e Event) {
	h.watchMu.Lock()
	watch := h.watch
	h.watchMu.Unlock()
	if watch != nil {
		watch(e)
	}
}
