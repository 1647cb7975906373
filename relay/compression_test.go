package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the clients of these tests take it
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/stats"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// wiretap notes how much came to a client, and in which encodings.
type wiretap struct {
	mu sync.Mutex
	// Guarded by mu.
	encodings   string
	wire, whole int // bytes of messages, on the wire and inflated
}

func (*wiretap) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*wiretap) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*wiretap) HandleConn(context.Context, stats.ConnStats)                       {}
func (w *wiretap) HandleRPC(_ context.Context, s stats.RPCStats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch s := s.(type) {
	case *stats.InHeader:
		w.encodings += s.Compression
	case *stats.InPayload:
		w.wire += s.CompressedLength
		w.whole += s.Length
	}
}

// TestCompression: what downstream.compression means to clients that take gzip, which
// come one after the other: auto is for those after the first 16, always for all, and
// never for none. Other services on the port answer as ever.
func TestCompression(t *testing.T) {
	large := xdstest.Cluster("c", time.Second)
	large.AltStatName = strings.Repeat("x", 20<<10)
	const clients = 20
	for setting, plain := range map[config.Compression]int{
		{Mode: config.CompressionNever, MinSize: 1 << 10}: clients, {Mode: config.CompressionAuto, MinSize: 1 << 10}: 16, {Mode: config.CompressionAlways, MinSize: 1 << 10}: 0,
	} {
		t.Run(string(setting.Mode), func(t *testing.T) {
			cfg := testConfig()
			cfg.Downstream.Compression = setting
			cfg.Upstream.Directory = t.TempDir()
			writeResources(t, cfg.Upstream.Directory, "clusters.json", large)
			n := start(t, cfg)
			first := clients // that got it compressed
			for i := range clients {
				w := &wiretap{}
				s := xdstest.Dial(t, n.Addr(), grpc.WithStatsHandler(w)).Open(xdstest.Delta)
				s.Subscribe(clusterURL)
				s.Ack(s.RecvType(t, clusterURL))
				w.mu.Lock()
				if w.wire < w.whole {
					first = min(first, i)
				} else if i > first {
					t.Errorf("client %d got it plain, though %d did not", i, first)
				}
				w.mu.Unlock()
			}
			// The very first may have come before all was known, and shared with nobody.
			if late := first - plain; late < 0 || late > 1 || late == 1 && plain == 0 {
				t.Errorf("%d clients got it plain, expected %d", first, plain)
			}
			count := fmt.Sprintf("\nxdsrelay_downstream_compressed_responses_total{type=\"envoy.config.cluster.v3.Cluster\",variant=\"delta\"} %d\n", clients-first)
			if _, metrics := n.get(t, "/metrics"); strings.Contains(metrics, count) != (first < clients) {
				t.Errorf("the metrics lack %s", count)
			}
			w := &wiretap{}
			health := healthpb.NewHealthClient(xdstest.Dial(t, n.Addr(), grpc.WithStatsHandler(w)).ClientConn())
			if _, err := health.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || w.encodings != "" {
				t.Errorf("health in %q: %v", w.encodings, err)
			}
		})
	}
}
