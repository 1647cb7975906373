package xdstest

import (
	"fmt"
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

// LoadOrigin is the load reporting service of an [Origin] or a [StateOrigin]: it
// records what is reported, and asks only for what the test tells it to.
type LoadOrigin struct {
	log     *Transcript               // fixed
	streams *inbox[*LoadOriginStream] // fixed; those that the test has not taken yet
	opened  atomic.Int64
}

func newLoadOrigin(log *Transcript) *LoadOrigin {
	line := func(st *LoadOriginStream) string { return "stream " + st.id }
	return &LoadOrigin{log: log, streams: newInbox("the load origin", log, line)}
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
	return l.streams.next(t, "a stream", nil)
}

// NoStream fails the test if a stream waits to be taken or is opened within d
// (0 means [QuietWindow]).
func (l *LoadOrigin) NoStream(t TB, d time.Duration) {
	t.Helper()
	l.streams.quiet(t, d, nil)
}

// Opened is how many streams there were.
func (l *LoadOrigin) Opened() int { return int(l.opened.Load()) }

// handle serves one stream until its client, the test or the server ends it.
func (l *LoadOrigin) handle(ss grpc.ServerStream) error {
	st := &LoadOriginStream{}
	st.begin(fmt.Sprintf("load #%d", l.opened.Add(1)), l.log, ss, loadLine)
	st.log.add("%s opened", st.id)
	l.streams.put(st)
	return st.serve(st.receive, func(*lrsv3.LoadStatsRequest) {})
}

// LoadOriginStream is one stream of reports to a [LoadOrigin].
type LoadOriginStream struct {
	served[*lrsv3.LoadStatsRequest]
}

// receive takes the next report from the transport.
func (st *LoadOriginStream) receive() (*lrsv3.LoadStatsRequest, *corev3.Node, error) {
	m := &lrsv3.LoadStatsRequest{}
	if err := st.grpc.RecvMsg(m); err != nil {
		return nil, nil, err
	}
	node := m.GetNode()
	return m, node, nil
}

// Next takes the next request, which is empty but for its node if it is the
// first. The test fails if none comes within [Patience] or the stream ends.
func (st *LoadOriginStream) Next(t TB) *lrsv3.LoadStatsRequest {
	t.Helper()
	return st.inbox.next(t, "a report", nil)
}

// Waiting takes all requests that have come and were not taken yet.
func (st *LoadOriginStream) Waiting() (all []*lrsv3.LoadStatsRequest) {
	for {
		m, how, _ := st.inbox.take(0, func(*lrsv3.LoadStatsRequest) bool { return true })
		if how != taken {
			return all
		}
		all = append(all, m)
	}
}

// Ask sends a response: what is to be reported.
func (st *LoadOriginStream) Ask(t TB, m *lrsv3.LoadStatsResponse) {
	t.Helper()
	st.mu.Lock()
	defer st.mu.Unlock()
	if err := st.sendLocked(m, termsLine(m)); err != nil {
		t.Fatalf("%v%s", err, st.log)
	}
}
