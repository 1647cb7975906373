package upstream

import (
	"context"
	"io"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/load"
	"xdsrelay/relay/xdstest"
)

// loadRig is a collector whose accounts a control plane client reports.
type loadRig struct {
	t  xdstest.TB
	cp *ControlPlane
	*load.Collector
}

func newLoadRig(t xdstest.TB, cfg ControlPlaneConfig, linger time.Duration) *loadRig {
	t.Helper()
	cp, err := NewControlPlane(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(cp.Close)
	return newLoadRigOf(t, cp, linger)
}

func newLoadRigOf(t xdstest.TB, cp *ControlPlane, linger time.Duration) *loadRig {
	t.Helper()
	c, err := load.New(load.Config{Run: cp.Report, Linger: linger})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(c.Close)
	return &loadRig{t, cp, c}
}

// loadClient is one downstream client of load reports.
type loadClient struct {
	*load.Client
	t xdstest.TB
}

func (r *loadRig) join(key string) loadClient {
	node := &corev3.Node{Id: "relay/" + key, Cluster: key, ClientFeatures: []string{"f"}}
	return loadClient{r.Join(aggregation.Key(key), node, func() {}), r.t}
}

// waitTerms waits until the client has received what to report.
func (c loadClient) waitTerms(what string, good func(*lrsv3.LoadStatsResponse) bool) {
	c.t.Helper()
	xdstest.Eventually(c.t, "terms: "+what, func() bool {
		terms, err := c.Terms()
		return err == nil && terms != nil && good(terms.Response)
	})
}

// waitRefused waits until the client has been notified that no server accepts its reports, and
// returns the reason.
func (c loadClient) waitRefused() (why error) {
	c.t.Helper()
	xdstest.Eventually(c.t, "a refusal", func() bool {
		_, why = c.Terms()
		return why != nil
	})
	return why
}

// issued reports requests to a zone of cluster "c".
func (c loadClient) issued(zone string, n, inProgress uint64) {
	c.Report([]*endpointv3.ClusterStats{xdstest.ClusterLoad("c", xdstest.ZoneLoad(zone, n, inProgress))})
}

// totals returns the issued requests by zone in some requests.
func totals(requests ...*lrsv3.LoadStatsRequest) map[string]uint64 {
	out := make(map[string]uint64)
	for _, q := range requests {
		for _, c := range q.GetClusterStats() {
			for _, l := range c.GetUpstreamLocalityStats() {
				if n := l.GetTotalIssuedRequests(); n > 0 {
					out[l.GetLocality().GetZone()] += n
				}
			}
		}
	}
	return out
}

// loadWire is a channel whose streams carry load reports.
type loadWire struct {
	*wire
	serve func(*loadWireStream) error
}

func newLoadWire(serve func(*loadWireStream) error) *loadWire { return &loadWire{newWire(nil), serve} }

func (w *loadWire) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	w.mu.Lock()
	w.opened = append(w.opened, time.Now())
	w.mu.Unlock()
	s := &loadWireStream{ctx: ctx, fromClient: make(chan *lrsv3.LoadStatsRequest, 1000), toClient: make(chan *lrsv3.LoadStatsResponse), end: make(chan error, 1)}
	go func() {
		err := w.serve(s)
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
		s.end <- err
	}()
	return s, nil
}

// loadWireStream is a stream of a loadWire.
type loadWireStream struct {
	grpc.ClientStream
	ctx        context.Context
	fromClient chan *lrsv3.LoadStatsRequest // closed when the client closes its side
	toClient   chan *lrsv3.LoadStatsResponse
	end        chan error

	mu   sync.Mutex
	over bool // the server has ended the stream
}

// SendMsg fails once the server has ended the stream. Messages that were sent before count as sent.
func (s *loadWireStream) SendMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.ctx.Err() != nil {
		return io.EOF
	}
	s.fromClient <- proto.CloneOf(m.(*lrsv3.LoadStatsRequest))
	return nil
}

func (s *loadWireStream) CloseSend() error {
	close(s.fromClient)
	return nil
}

func (s *loadWireStream) RecvMsg(m any) error {
	select {
	case r := <-s.toClient:
		proto.Merge(m.(proto.Message), r)
		return nil
	case err := <-s.end:
		return err
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
}

// recv waits for a request, nil for the end.
func (s *loadWireStream) recv() *lrsv3.LoadStatsRequest {
	select {
	case m := <-s.fromClient:
		return m
	case <-s.ctx.Done():
		return nil
	}
}

// ask sends a response.
func (s *loadWireStream) ask(m *lrsv3.LoadStatsResponse) {
	select {
	case s.toClient <- m:
	case <-s.ctx.Done():
	}
}
