package load

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

var clusterNames = []string{"a", "b", "c"}

// drawReport draws what a client reports.
func drawReport(t *rapid.T) (out []*endpointv3.ClusterStats) {
	count := rapid.Uint64Range(0, 3)
	metrics := func() (out []*endpointv3.EndpointLoadMetricStats) {
		for range rapid.IntRange(0, 2).Draw(t, "metrics") {
			out = append(out, &endpointv3.EndpointLoadMetricStats{
				MetricName:                    rapid.SampledFrom([]string{"", "m", "n"}).Draw(t, "metric"),
				NumRequestsFinishedWithMetric: count.Draw(t, "n"), TotalMetricValue: float64(count.Draw(t, "value")),
			})
		}
		return out
	}
	for range rapid.IntRange(0, 3).Draw(t, "clusters") {
		c := &endpointv3.ClusterStats{
			ClusterName:          rapid.SampledFrom(clusterNames).Draw(t, "cluster"),
			ClusterServiceName:   rapid.SampledFrom([]string{"", "s"}).Draw(t, "service"),
			TotalDroppedRequests: count.Draw(t, "dropped"),
			DroppedRequests: []*endpointv3.ClusterStats_DroppedRequests{
				{Category: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "category"), DroppedCount: count.Draw(t, "n")},
			},
		}
		for range rapid.IntRange(0, 3).Draw(t, "localities") {
			l := &endpointv3.UpstreamLocalityStats{
				Locality:                &corev3.Locality{Zone: rapid.SampledFrom([]string{"", "z", "w"}).Draw(t, "zone")},
				Priority:                rapid.Uint32Range(0, 1).Draw(t, "priority"),
				TotalSuccessfulRequests: count.Draw(t, "n"), TotalErrorRequests: count.Draw(t, "n"), TotalIssuedRequests: count.Draw(t, "n"),
				TotalNewConnections: count.Draw(t, "n"), TotalFailConnections: count.Draw(t, "n"),
				TotalRequestsInProgress: count.Draw(t, "in progress"), TotalActiveConnections: count.Draw(t, "active"),
				CpuUtilization:  &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: count.Draw(t, "n"), TotalMetricValue: 1},
				LoadMetricStats: metrics(),
			}
			for range rapid.IntRange(0, 2).Draw(t, "endpoints") {
				l.UpstreamEndpointStats = append(l.UpstreamEndpointStats, &endpointv3.UpstreamEndpointStats{
					Address:                 address(rapid.SampledFrom([]string{"h", "i"}).Draw(t, "host")),
					TotalSuccessfulRequests: count.Draw(t, "n"), TotalRequestsInProgress: count.Draw(t, "in progress"),
					LoadMetricStats: metrics(),
				})
			}
			c.UpstreamLocalityStats = append(c.UpstreamLocalityStats, l)
		}
		out = append(out, c)
	}
	return out
}

// model is what an account has to do, in terms of plain numbers.
type model struct {
	terms    *lrsv3.LoadStatsResponse
	counters numbers             // reported and not taken
	gauges   map[*Client]numbers // latest of each client
}

// asked reports whether the terms ask for what is at a path.
func (m *model) asked(path string) bool {
	if m.terms == nil {
		return true
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "+")
	return (m.terms.GetSendAllClusters() || slices.Contains(m.terms.GetClusters(), name)) &&
		(m.terms.GetReportEndpointGranularity() || !strings.Contains(path, "/upstream_endpoint_stats/"))
}

func (m *model) report(c *Client, stats []*endpointv3.ClusterStats) {
	all := numbers{}
	all.add(stats, 1)
	all = all.only(m.asked)
	m.gauges[c] = all.only(gaugePath)
	m.counters.plus(all.only(func(path string) bool { return !gaugePath(path) }))
}

// take returns what has to be told now. What is not asked for is forgotten.
func (m *model) take() numbers {
	out := m.counters.only(m.asked)
	m.counters = numbers{}
	for c, held := range m.gauges {
		m.gauges[c] = held.only(m.asked)
		out.plus(m.gauges[c])
	}
	return out
}

// TestSumsAgainstModel: whatever clients report, come and go, whatever the origin
// asks for in between, and whatever could not be sent: what is told are the sums
// of what was reported and asked for, once.
func TestSumsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t, Config{Linger: time.Hour})
		defer r.Close()
		m := model{counters: numbers{}, gauges: make(map[*Client]numbers)}
		first := r.join("k")
		o := (<-r.outlets).Outlet
		clients := []*Client{first}
		pick := func() int {
			if len(clients) == 0 {
				t.Skip("nobody is there")
			}
			return rapid.IntRange(0, len(clients)-1).Draw(t, "client")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(*rapid.T) { clients = append(clients, r.join("k")) },
			"leave": func(*rapid.T) {
				i := pick()
				clients[i].Leave()
				delete(m.gauges, clients[i])
				clients = slices.Delete(clients, i, i+1)
			},
			"report": func(t *rapid.T) {
				c, stats := clients[pick()], drawReport(t)
				m.report(c, stats)
				if left := c.Report(stats); left > 0 {
					t.Fatalf("%d things left out", left)
				}
			},
			"ask": func(t *rapid.T) {
				m.terms = everything(time.Second)
				m.terms.ReportEndpointGranularity = rapid.Bool().Draw(t, "endpoints")
				if m.terms.SendAllClusters = rapid.Bool().Draw(t, "all"); !m.terms.SendAllClusters {
					m.terms.Clusters = rapid.SliceOfNDistinct(rapid.SampledFrom(clusterNames), 0, 2, rapid.ID).Draw(t, "clusters")
				}
				mustAsk(t, o, proto.CloneOf(m.terms))
			},
			"take": func(t *rapid.T) {
				// The model goes by the terms at the time of the report, so what
				// was given back under other terms is filtered again.
				want, got := m.take(), numbers{}
				requests := pack(taken(o), rapid.SampledFrom([]int{1, 100, 1000, maxMessage}).Draw(t, "limit"))
				unsent := rapid.IntRange(0, len(requests)).Draw(t, "unsent")
				for _, q := range requests {
					got.add(q.GetClusterStats(), 1)
				}
				if !maps.Equal(got, want) {
					t.Fatalf("got      %v\nexpected %v", got, want)
				}
				o.GiveBack(requests[len(requests)-unsent:])
				back := numbers{}
				for _, q := range requests[len(requests)-unsent:] {
					back.add(q.GetClusterStats(), 1)
				}
				m.counters.plus(back.only(func(path string) bool { return !gaugePath(path) }))
			},
		})
		// When all is told and everybody has left, nothing is held any more.
		for _, c := range clients {
			c.Leave()
		}
		taken(o)
		taken(o)
		if a := o.account; len(a.sums.clusters) != 0 || a.sums.room != r.cfg.MaxBytes {
			t.Fatalf("%d clusters and %d bytes are still held", len(a.sums.clusters), r.cfg.MaxBytes-a.sums.room)
		}
	})
}

// TestPack: requests are as large as allowed, and splitting changes no number.
func TestPack(t *testing.T) {
	var stats []*endpointv3.ClusterStats
	for c := range 3 {
		one := &endpointv3.ClusterStats{ClusterName: fmt.Sprint("cluster", c), TotalDroppedRequests: 5}
		for z := range 40 {
			l := zone(fmt.Sprint("zone", z), 10, 1)
			for e := range 20 * c {
				l.UpstreamEndpointStats = append(l.UpstreamEndpointStats, &endpointv3.UpstreamEndpointStats{
					Address: address(fmt.Sprint("10.0.0.", e)), TotalIssuedRequests: 2,
				})
			}
			one.UpstreamLocalityStats = append(one.UpstreamLocalityStats, l)
		}
		stats = append(stats, one)
	}
	want := numbers{}
	want.add(stats, 1)
	for _, limit := range []int{200, 1000, 10_000, 1 << 20} {
		copied := make([]*endpointv3.ClusterStats, len(stats))
		for i, c := range stats {
			copied[i] = proto.CloneOf(c)
		}
		got, total := numbers{}, 0
		requests := pack(copied, limit)
		for _, r := range requests {
			if n := proto.Size(r); n > limit {
				t.Errorf("a request of %d bytes, expected at most %d", n, limit)
			}
			total += proto.Size(r)
			got.add(r.GetClusterStats(), 1)
		}
		if !maps.Equal(got, want) {
			t.Errorf("limit %d changes the numbers", limit)
		}
		if most := 4*total/limit + 1; len(requests) > most {
			t.Errorf("%d requests of at most %d bytes for %d bytes, expected at most %d", len(requests), limit, total, most)
		}
	}
	if got := pack(nil, 100); len(got) != 1 || len(got[0].GetClusterStats()) != 0 {
		t.Errorf("nothing becomes %v, expected one empty request", got)
	}
}
