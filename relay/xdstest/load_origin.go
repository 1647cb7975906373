package xdstest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// loadService is the name of LRS.
const loadService = "envoy.service.load_stats.v3.LoadReportingService"

// LoadOrigin is the load reporting service of an [Origin] or a [StateOrigin]: it records what is
// reported, and asks only for what the test tells it to.
type LoadOrigin struct {
	log     *Transcript               // fixed
	streams *inbox[*LoadOriginStream] // fixed; those that the test has not taken yet
	opened  atomic.Int64
}

// ServeLoad makes the origin take load reports. Before, it answers UNIMPLEMENTED
// as a server without that service does. It is called once.
func (o *Origin) ServeLoad() *LoadOrigin { return serveLoad(&o.load, o.log) }

// ServeLoad is [Origin.ServeLoad]. What is asked for is still up to the test.
func (o *StateOrigin) ServeLoad() *LoadOrigin { return serveLoad(&o.load, o.log) }

func serveLoad(load *atomic.Pointer[LoadOrigin], log *Transcript) *LoadOrigin {
	l := &LoadOrigin{log: log, streams: newInbox[*LoadOriginStream]()}
	load.Store(l)
	return l
}

// registerLoad serves LRS. Whether there is such a service is decided with each
// stream.
func registerLoad(g *grpc.Server, load *atomic.Pointer[LoadOrigin]) {
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: loadService, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "StreamLoadStats", ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, ss grpc.ServerStream) error {
				if l := load.Load(); l != nil {
					return l.handle(ss)
				}
				return status.Error(codes.Unimplemented, "unknown service "+loadService)
			},
		}},
	}, struct{}{})
}

// NextStream takes the next stream that a client opens, or has opened. It fails
// the test if none comes within [Patience].
func (l *LoadOrigin) NextStream(t TB) *LoadOriginStream {
	t.Helper()
	st, how, _ := l.streams.take(Patience, func(*LoadOriginStream) bool { return true })
	if how != taken {
		t.Fatalf("load origin: waited %v for a stream, in vain%s", Patience, l.log)
	}
	return st
}

// NoStream fails the test if a stream waits to be taken or is opened within d
// (0 means [QuietWindow]).
func (l *LoadOrigin) NoStream(t TB, d time.Duration) {
	t.Helper()
	if d <= 0 {
		d = QuietWindow
	}
	if st, how, _ := l.streams.take(d, func(*LoadOriginStream) bool { return true }); how == taken {
		t.Fatalf("load origin: expected no new stream within %v, got %s%s", d, st.id, l.log)
	}
}

// Opened is how many streams there were.
func (l *LoadOrigin) Opened() int { return int(l.opened.Load()) }

// handle serves one stream until its client, the test or the server ends it.
func (l *LoadOrigin) handle(ss grpc.ServerStream) error {
	st := &LoadOriginStream{
		id: fmt.Sprintf("load #%d", l.opened.Add(1)), log: l.log, grpc: ss,
		reports: newInbox[*lrsv3.LoadStatsRequest](), closing: make(chan struct{}),
	}
	st.log.add("%s opened", st.id)
	l.streams.put(st)
	received := make(chan error, 1)
	go func() { received <- st.receive() }()
	var end error
	select {
	case <-st.closing:
		end = st.status()
	case end = <-received:
	}
	st.retire(end)
	return end
}

// LoadOriginStream is one stream of reports to a [LoadOrigin].
type LoadOriginStream struct {
	id      string                          // fixed
	log     *Transcript                     // fixed
	grpc    grpc.ServerStream               // fixed
	reports *inbox[*lrsv3.LoadStatsRequest] // fixed; those that the test has not taken yet
	closing chan struct{}                   // closed by Close

	mu      sync.Mutex // guards all below
	node    *corev3.Node
	end     error // what the handler is to return, once closing is closed
	closed  bool  // Close was called
	retired bool  // the handler is about to return: nothing may be sent
}

// receive records reports until the client ends its half.
func (st *LoadOriginStream) receive() error {
	for {
		m := &lrsv3.LoadStatsRequest{}
		if err := st.grpc.RecvMsg(m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		st.log.add("%s <- %s", st.id, loadLine(m))
		st.mu.Lock()
		if st.node == nil {
			st.node = m.GetNode()
		}
		st.mu.Unlock()
		st.reports.put(m)
	}
}

// Next takes the next request, which is empty but for its node if it is the
// first. The test fails if none comes within [Patience] or the stream ends.
func (st *LoadOriginStream) Next(t TB) *lrsv3.LoadStatsRequest {
	t.Helper()
	m, how, why := st.reports.take(Patience, func(*lrsv3.LoadStatsRequest) bool { return true })
	switch how {
	case timedOut:
		t.Fatalf("%s: waited %v for a report, in vain%s", st.id, Patience, st.log)
	case ended:
		t.Fatalf("%s: ended (%v) instead of bringing a report%s", st.id, why, st.log)
	}
	return m
}

// Waiting takes all requests that have come and were not taken yet.
func (st *LoadOriginStream) Waiting() (all []*lrsv3.LoadStatsRequest) {
	for {
		m, how, _ := st.reports.take(0, func(*lrsv3.LoadStatsRequest) bool { return true })
		if how != taken {
			return all
		}
		all = append(all, m)
	}
}

// Quiet fails the test if a request waits to be taken or comes within d (0
// means [QuietWindow]), or if the stream ends.
func (st *LoadOriginStream) Quiet(t TB, d time.Duration) {
	t.Helper()
	if d <= 0 {
		d = QuietWindow
	}
	m, how, why := st.reports.take(d, func(*lrsv3.LoadStatsRequest) bool { return true })
	switch how {
	case taken:
		t.Fatalf("%s: expected silence for %v, got %s%s", st.id, d, loadLine(m), st.log)
	case ended:
		t.Fatalf("%s: ended (%v) within the quiet window%s", st.id, why, st.log)
	}
}

// Node is the node of the first request that had one; nil before.
func (st *LoadOriginStream) Node() *corev3.Node {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.node
}

// Ask sends a response: what is to be reported.
func (st *LoadOriginStream) Ask(t TB, m *lrsv3.LoadStatsResponse) {
	t.Helper()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.retired {
		t.Fatalf("%s has ended: cannot ask%s", st.id, st.log)
	}
	if err := st.grpc.SendMsg(m); err != nil {
		t.Fatalf("%s: ask: %v%s", st.id, err, st.log)
	}
	st.log.add("%s -> %s", st.id, termsLine(m))
}

// Close ends the stream with a status; nil is a plain end.
func (st *LoadOriginStream) Close(s *status.Status) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.closed {
		st.closed, st.end = true, s.Err()
		close(st.closing)
	}
}

// WaitClosed waits until the stream has ended, from whichever side.
func (st *LoadOriginStream) WaitClosed(t TB) {
	t.Helper()
	if how, _ := st.reports.waitEnd(Patience); how != ended {
		t.Fatalf("%s: still open after %v%s", st.id, Patience, st.log)
	}
}

func (st *LoadOriginStream) status() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.end
}

// retire is the last thing that the handler does: gRPC forbids sending once it
// has returned.
func (st *LoadOriginStream) retire(end error) {
	st.mu.Lock()
	st.retired = true
	st.mu.Unlock()
	st.log.add("%s ended: %v", st.id, end)
	st.reports.finish(end)
}
