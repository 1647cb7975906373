package xdstest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Origin is a scripted control plane: it accepts streams of every variant,
// records what is asked, and says only what the test tells it to say.
type Origin struct {
	srv     *server                    // fixed
	log     *Transcript                // fixed
	streams *inbox[*OriginStream]      // fixed; those that the test has not taken yet
	load    atomic.Pointer[LoadOrigin] // nil as long as there is no such service

	mu     sync.Mutex
	opened []*OriginStream // guarded by mu; all there ever were, oldest first
	watch  func(Event)     // guarded by mu; nil for nobody
}

// NewOrigin starts a scripted control plane.
func NewOrigin(t TB) *Origin {
	t.Helper()
	return (*Memory)(nil).NewOrigin(t)
}

// NewOrigin is [NewOrigin] on this network.
func (m *Memory) NewOrigin(t TB) *Origin {
	t.Helper()
	o := &Origin{log: NewTranscript("the origin", 400), streams: newInbox[*OriginStream]()}
	o.srv = newServer(t, m, func(g *grpc.Server) {
		registerDiscovery(g, o.handle)
		registerLoad(g, &o.load)
	})
	if err := o.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	return o
}

// Addr is where the origin listens, "127.0.0.1:port", the same for its life.
func (o *Origin) Addr() string { return o.srv.addr() }

// Stop cuts all streams and refuses connections until [Origin.Start].
func (o *Origin) Stop() {
	o.log.add("origin stopped")
	o.srv.stop()
}

// Start accepts connections again, at the same address.
func (o *Origin) Start() error {
	o.log.add("origin started")
	return o.srv.start()
}

// Streams lists all streams there ever were, oldest first.
func (o *Origin) Streams() []*OriginStream {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*OriginStream(nil), o.opened...)
}

// NextStream takes the next stream that a client opens, or has opened. It fails
// the test if none comes within [Patience].
func (o *Origin) NextStream(t TB) *OriginStream {
	t.Helper()
	st, how, _ := o.streams.take(Patience, func(*OriginStream) bool { return true })
	if how != taken {
		t.Fatalf("origin: waited %v for a stream, in vain%s", Patience, o.log)
	}
	return st
}

// NoStream fails the test if a stream waits to be taken or is opened within d
// (0 means [QuietWindow]).
func (o *Origin) NoStream(t TB, d time.Duration) {
	t.Helper()
	if d <= 0 {
		d = QuietWindow
	}
	if st, how, _ := o.streams.take(d, func(*OriginStream) bool { return true }); how == taken {
		t.Fatalf("origin: expected no new stream within %v, got %s (%s)%s", d, st.id, st.Variant, o.log)
	}
}

// Transcript is the conversation so far, for a test's own messages.
func (o *Origin) Transcript() string { return o.log.String() }

// ShareTranscript lets what is said go into a transcript of several parts from
// now on, marked with a name.
func (o *Origin) ShareTranscript(into *Transcript, as string) { o.log.share(into, as) }

// Watch calls f for all that clients do from now on, each stream's events in
// their order; streams call it concurrently. f must not block.
func (o *Origin) Watch(f func(Event)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watch = f
}

func (o *Origin) notify(e Event) {
	o.mu.Lock()
	watch := o.watch
	o.mu.Unlock()
	if watch != nil {
		watch(e)
	}
}

// handle serves one stream until its client, the test or the server ends it.
func (o *Origin) handle(v Variant, ss grpc.ServerStream) error {
	o.mu.Lock()
	st := &OriginStream{
		Variant: v, number: len(o.opened) + 1, notify: o.notify, id: fmt.Sprintf("#%d", len(o.opened)+1), log: o.log, grpc: ss,
		requests: newInbox[*Request](), closing: make(chan struct{}),
	}
	o.opened = append(o.opened, st)
	o.mu.Unlock()
	st.log.add("%s opened %s", st.id, v)
	o.streams.put(st)
	o.notify(Event{Stream: st.number, Variant: v, Opened: st})

	received := make(chan error, 1)
	go func() { received <- st.receive() }()
	var end error
	select {
	case <-st.closing:
		end = st.status()
	case end = <-received:
	}
	st.retire(end)
	o.notify(Event{Stream: st.number, Variant: v, Ended: true})
	return end
}
