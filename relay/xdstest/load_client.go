package xdstest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/xdsclient"
)

// LoadStream is a scripted client's stream of load reports. It sends only what
// it is told to, and its node with the first message.
type LoadStream struct {
	id     string                           // fixed
	node   *corev3.Node                     // fixed
	log    *Transcript                      // fixed
	grpc   grpc.ClientStream                // fixed
	cancel context.CancelFunc               // fixed
	terms  *inbox[*lrsv3.LoadStatsResponse] // fixed

	mu     sync.Mutex // held while sending
	spoken bool       // guarded by mu: the first message was sent
}

// OpenLoad starts a stream of load reports, and says nothing on it yet.
func (c *Conn) OpenLoad() *LoadStream {
	c.t.Helper()
	gs, cancel := c.open("/" + loadService + "/StreamLoadStats")
	id := fmt.Sprintf("load #%d", c.opened.Add(1))
	s := &LoadStream{id: id, log: c.log, node: c.Node, grpc: gs, cancel: cancel, terms: newInbox("stream "+id, c.log, termsLine)}
	s.log.add("%s opened", s.id)
	c.wg.Go(s.receive)
	return s
}

func (s *LoadStream) receive() {
	defer s.cancel()
	for {
		m := &lrsv3.LoadStatsResponse{}
		if err := s.grpc.RecvMsg(m); err != nil {
			s.log.add("%s <- ended: %v", s.id, err)
			s.terms.finish(err)
			return
		}
		s.log.add("%s <- %s", s.id, termsLine(m))
		s.terms.put(m)
	}
}

// Report sends what is reported of some clusters; without any it is what a
// client says first. Sending on a stream that has ended is noted in the
// transcript, returned, and has no other effect.
func (s *LoadStream) Report(stats ...*endpointv3.ClusterStats) error {
	m := &lrsv3.LoadStatsRequest{ClusterStats: stats}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.spoken {
		m.Node = s.node
	}
	return s.sendLocked(m)
}

// Send sends a message as it is, without a node unless it has one.
func (s *LoadStream) Send(m *lrsv3.LoadStatsRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sendLocked(m)
}

func (s *LoadStream) sendLocked(m *lrsv3.LoadStatsRequest) error {
	s.spoken = true
	err := s.grpc.SendMsg(m)
	if err != nil {
		s.log.add("%s -> could not send %s: %v", s.id, loadLine(m), err)
		return err
	}
	s.log.add("%s -> %s", s.id, loadLine(m))
	return nil
}

// Terms takes the next response; the test fails if none comes within [Patience]
// or the stream ends.
func (s *LoadStream) Terms(t TB) *lrsv3.LoadStatsResponse {
	t.Helper()
	return s.terms.next(t, "terms", nil)
}

// Quiet fails the test if a response is waiting or comes within d (0 means
// [QuietWindow]), or if the stream ends.
func (s *LoadStream) Quiet(t TB, d time.Duration) {
	t.Helper()
	s.terms.quiet(t, d, nil)
}

// ExpectClosed waits for the end of the stream and returns its status (OK for a
// plain end). Responses that were not taken are passed over.
func (s *LoadStream) ExpectClosed(t TB) *status.Status {
	t.Helper()
	return endStatus(s.terms.untilEnd(t))
}

// CloseSend ends the client's half of the stream: all that was reported before
// arrives.
func (s *LoadStream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.grpc.CloseSend()
	s.log.add("%s -> half-closed", s.id)
}

// Cancel resets the stream, as a client that goes away does.
func (s *LoadStream) Cancel() {
	s.log.add("%s cancelled", s.id)
	s.cancel()
}

// LoadTerms is a response of LRS that asks for some clusters, or for all where
// none is named.
func LoadTerms(interval time.Duration, clusters ...string) *lrsv3.LoadStatsResponse {
	return &lrsv3.LoadStatsResponse{
		Clusters: clusters, SendAllClusters: len(clusters) == 0, LoadReportingInterval: durationpb.New(interval),
	}
}

// ClusterLoad is a report of one cluster.
func ClusterLoad(cluster string, localities ...*endpointv3.UpstreamLocalityStats) *endpointv3.ClusterStats {
	return &endpointv3.ClusterStats{ClusterName: cluster, UpstreamLocalityStats: localities}
}

// ZoneLoad is a report of one locality: requests that were issued since the last
// report, all of them successful, and requests that are in progress now.
func ZoneLoad(zone string, issued, inProgress uint64) *endpointv3.UpstreamLocalityStats {
	return &endpointv3.UpstreamLocalityStats{
		Locality: &corev3.Locality{Zone: zone}, TotalIssuedRequests: issued, TotalSuccessfulRequests: issued,
		TotalRequestsInProgress: inProgress,
	}
}

// loadLine is a report in one line.
func loadLine(m *lrsv3.LoadStatsRequest) string {
	var b strings.Builder
	b.WriteString("load report")
	if m.GetNode() != nil {
		fmt.Fprintf(&b, " node=%s", m.GetNode().GetId())
	}
	for _, c := range m.GetClusterStats() {
		fmt.Fprintf(&b, " %s:", c.GetClusterName())
		for _, l := range c.GetUpstreamLocalityStats() {
			fmt.Fprintf(&b, " %s=%d+%d", l.GetLocality().GetZone(), l.GetTotalIssuedRequests(), l.GetTotalRequestsInProgress())
		}
		if d := c.GetTotalDroppedRequests(); d > 0 {
			fmt.Fprintf(&b, " dropped=%d", d)
		}
	}
	return b.String()
}

// termsLine is a response of LRS in one line.
func termsLine(m *lrsv3.LoadStatsResponse) string {
	line := fmt.Sprintf("load terms every %v %s", m.GetLoadReportingInterval().AsDuration(), xdsclient.Brief(m.GetClusters()))
	if m.GetSendAllClusters() {
		line += " all"
	}
	if m.GetReportEndpointGranularity() {
		line += " endpoints"
	}
	return line
}
