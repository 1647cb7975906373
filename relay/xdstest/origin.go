package xdstest

import (
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Origin is a scripted control plane: it accepts streams of every variant,
// records what is asked, and says only what the test tells it to say.
type Origin struct {
	host

	streams *inbox[*OriginStream] // fixed; those that the test has not taken yet

	mu     sync.Mutex
	opened []*OriginStream // guarded by mu; all there ever were, oldest first
}

// NewOrigin starts a scripted control plane.
func NewOrigin(t TB) *Origin {
	t.Helper()
	return (*Memory)(nil).NewOrigin(t)
}

// NewOrigin is [NewOrigin] on this network.
func (m *Memory) NewOrigin(t TB) *Origin {
	t.Helper()
	o := &Origin{host: host{log: NewTranscript("the origin", 400)}}
	o.streams = newInbox("the origin", o.log, func(st *OriginStream) string { return fmt.Sprintf("stream %s (%s)", st.id, st.Variant) })
	o.listen(t, m, o.handle)
	return o
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
	return o.streams.next(t, "a stream", nil)
}

// NoStream fails the test if a stream waits to be taken or is opened within d
// (0 means [QuietWindow]).
func (o *Origin) NoStream(t TB, d time.Duration) {
	t.Helper()
	o.streams.quiet(t, d, nil)
}

// handle serves one stream until its client, the test or the server ends it.
func (o *Origin) handle(v Variant, ss grpc.ServerStream) error {
	o.mu.Lock()
	st := &OriginStream{Variant: v, number: len(o.opened) + 1}
	st.begin(fmt.Sprintf("#%d", st.number), o.log, ss, (*Request).String)
	o.opened = append(o.opened, st)
	o.mu.Unlock()
	st.log.add("%s opened %s", st.id, v)
	o.streams.put(st)
	o.notify(Event{Stream: st.number, Variant: v, Opened: st})
	end := st.serve(st.receive, func(r *Request) {
		st.mu.Lock()
		st.all = append(st.all, r)
		st.mu.Unlock()
		o.notify(Event{Stream: st.number, Variant: v, Request: r})
	})
	o.notify(Event{Stream: st.number, Variant: v, Ended: true})
	return end
}
