package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/bench/content"
)

// Reports are load reports (LRS) of all clients.
type Reports struct {
	// Requests is how many requests each report has.
	Requests int `json:"requests"`
	// Errors is the percentage of them that failed, and Exposed that of clients that have received what
	// the last [Reaction] is about.
	Errors  float64 `json:"errors"`
	Exposed float64 `json:"exposed"`
}

// reportStreams is how many load report streams share a connection.
const reportStreams = 50

// Report makes all clients send load reports until the fleet is closed, each to the server that it
// connects to first.
func (f *Fleet) Report(r Reports) error {
	if r.Requests < 1 || f.cfg.TLS != nil {
		return fmt.Errorf("load reports of %d requests, expected at least 1, and plaintext", r.Requests)
	}
	conns := make(map[string][]*grpc.ClientConn)
	streams := make(map[string]int)
	for _, c := range f.clients {
		addr := f.cfg.Addrs[c.link.number%len(f.cfg.Addrs)]
		if streams[addr]%reportStreams == 0 {
			conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return fmt.Errorf("load reports: %w", err)
			}
			context.AfterFunc(f.life, func() { _ = conn.Close() })
			conns[addr] = append(conns[addr], conn)
		}
		streams[addr]++
		conn := conns[addr][len(conns[addr])-1]
		f.work.Go(func() {
			if err := c.report(f.life, conn, r); err != nil && f.life.Err() == nil {
				f.ends.add("load reports", err.Error())
			}
		})
	}
	return nil
}

// report sends the load reports of a client.
func (c *client) report(ctx context.Context, conn *grpc.ClientConn, r Reports) error {
	stream, err := lrsv3.NewLoadReportingServiceClient(conn).StreamLoadStats(ctx)
	if err != nil {
		return err
	}
	node := &corev3.Node{Id: content.NodeID(c.number), Cluster: content.KeyName(c.view.key), UserAgentName: "xdsbench"}
	if err := stream.Send(&lrsv3.LoadStatsRequest{Node: node}); err != nil {
		return err
	}
	asked, err := stream.Recv()
	if err != nil {
		return err
	}
	every := max(asked.GetLoadReportingInterval().AsDuration(), 100*time.Millisecond)
	for wait := rand.N(every); c.link.pause(ctx, wait); wait = every {
		if err := stream.Send(c.load(r, every)); err != nil {
			return err
		}
	}
	return nil
}

// load is one report.
func (c *client) load(r Reports, interval time.Duration) *lrsv3.LoadStatsRequest {
	rate := r.Errors
	if c.isExposed() {
		rate = r.Exposed
	}
	expected := float64(r.Requests) * rate / 100
	failed := uint64(expected)
	if rand.Float64() < expected-float64(failed) {
		failed++
	}
	return &lrsv3.LoadStatsRequest{ClusterStats: []*endpointv3.ClusterStats{{
		ClusterName:        content.Name(content.ClusterURL, c.link.fleet.cfg.Content.Source(c.view.key), 0),
		LoadReportInterval: durationpb.New(interval),
		UpstreamLocalityStats: []*endpointv3.UpstreamLocalityStats{{
			TotalSuccessfulRequests: uint64(r.Requests) - failed,
			TotalErrorRequests:      failed,
			TotalIssuedRequests:     uint64(r.Requests),
		}},
	}}}
}

func (c *client) isExposed() bool {
	e := c.link.fleet.exposure.Load()
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[c] != nil
}
