package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// parse reads the text form of cluster stats.
func parse(t *testing.T, text string) []*endpointv3.ClusterStats {
	t.Helper()
	m := &lrsv3.LoadStatsRequest{}
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m.GetClusterStats()
}

// sums makes empty ones.
func emptySums() *sums { return sumsOf(1 << 20) }

// sumsOf makes empty ones with so much room.
func sumsOf(room int64) *sums {
	return &sums{clusters: make(map[clusterID]*cluster), room: room, budget: &budget{most: 1 << 30}}
}

func expectStats(t *testing.T, got []*endpointv3.ClusterStats, want string) {
	t.Helper()
	a, b := &lrsv3.LoadStatsRequest{ClusterStats: got}, &lrsv3.LoadStatsRequest{ClusterStats: parse(t, want)}
	if !proto.Equal(a, b) {
		t.Fatalf("got:\n%s\nexpected:\n%s", prototext.Format(a), prototext.Format(b))
	}
}

// TestEveryField: two reports are one: each counter and each gauge of the
// protocol is added to its like.
func TestEveryField(t *testing.T) {
	one := `cluster_stats {
		cluster_name: "c" cluster_service_name: "s" total_dropped_requests: 7
		dropped_requests { category: "lb" dropped_count: 3 } dropped_requests { category: "throttle" dropped_count: 4 }
		load_report_interval { seconds: 10 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" sub_zone: "s" } priority: 1
			total_successful_requests: 1 total_requests_in_progress: 2 total_error_requests: 3 total_issued_requests: 4
			total_active_connections: 5 total_new_connections: 6 total_fail_connections: 7
			cpu_utilization { num_requests_finished_with_metric: 8 total_metric_value: 0.5 }
			mem_utilization { num_requests_finished_with_metric: 9 total_metric_value: 1.5 }
			application_utilization { num_requests_finished_with_metric: 10 total_metric_value: 2.5 }
			load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 11 total_metric_value: 3.5 }
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } }
				metadata { fields { key: "k" value { string_value: "v" } } }
				total_successful_requests: 12 total_requests_in_progress: 13 total_error_requests: 14 total_issued_requests: 15
				load_metric_stats { metric_name: "e" num_requests_finished_with_metric: 16 total_metric_value: 4.5 }
			}
		}
	}`
	start := time.Now()
	s := emptySums()
	s.report(nil, parse(t, one), start.Add(10*time.Second), nil)
	s.report(nil, parse(t, one), start.Add(15*time.Second), nil)
	expectStats(t, s.take(start.Add(20*time.Second), nil), `cluster_stats {
		cluster_name: "c" cluster_service_name: "s" total_dropped_requests: 14
		dropped_requests { category: "lb" dropped_count: 6 } dropped_requests { category: "throttle" dropped_count: 8 }
		load_report_interval { seconds: 20 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" sub_zone: "s" } priority: 1
			total_successful_requests: 2 total_requests_in_progress: 4 total_error_requests: 6 total_issued_requests: 8
			total_active_connections: 10 total_new_connections: 12 total_fail_connections: 14
			cpu_utilization { num_requests_finished_with_metric: 16 total_metric_value: 1 }
			mem_utilization { num_requests_finished_with_metric: 18 total_metric_value: 3 }
			application_utilization { num_requests_finished_with_metric: 20 total_metric_value: 5 }
			load_metric_stats { metric_name: "m" num_requests_finished_with_metric: 22 total_metric_value: 7 }
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } }
				metadata { fields { key: "k" value { string_value: "v" } } }
				total_successful_requests: 24 total_requests_in_progress: 26 total_error_requests: 28 total_issued_requests: 30
				load_metric_stats { metric_name: "e" num_requests_finished_with_metric: 32 total_metric_value: 9 }
			}
		}
	}`)
	// Counters start anew, gauges go on.
	expectStats(t, s.take(start.Add(25*time.Second), nil), `cluster_stats {
		cluster_name: "c" cluster_service_name: "s" load_report_interval { seconds: 5 }
		upstream_locality_stats {
			locality { region: "r" zone: "z" sub_zone: "s" } priority: 1 total_requests_in_progress: 4 total_active_connections: 10
			upstream_endpoint_stats {
				address { socket_address { address: "10.0.0.1" port_value: 80 } }
				metadata { fields { key: "k" value { string_value: "v" } } }
				total_requests_in_progress: 26
			}
		}
	}`)
}

// TestEveryFieldIsKnown: the messages have no fields but those that are added
// up; a new version of the protocol that brings one has to be looked at.
func TestEveryFieldIsKnown(t *testing.T) {
	for m, want := range map[proto.Message]int{
		&endpointv3.ClusterStats{}: 6, &endpointv3.ClusterStats_DroppedRequests{}: 2,
		&endpointv3.UpstreamLocalityStats{}: 14, &endpointv3.UpstreamEndpointStats{}: 7,
		&endpointv3.EndpointLoadMetricStats{}: 3, &endpointv3.UnnamedEndpointLoadMetricStats{}: 2,
	} {
		if d := m.ProtoReflect().Descriptor(); d.Fields().Len() != want {
			t.Errorf("%s has %d fields, expected %d", d.FullName(), d.Fields().Len(), want)
		}
	}
}

// TestApart: what differs in any part of its identity is not added up.
func TestApart(t *testing.T) {
	s := emptySums()
	now := time.Now()
	for _, text := range []string{
		`cluster_name: "c"`, `cluster_name: "c" cluster_service_name: "s"`, `cluster_name: "d"`,
	} {
		for _, locality := range []string{
			``, `locality {}`, `locality { region: "x" }`, `locality { zone: "x" }`, `locality { sub_zone: "x" }`, `locality {} priority: 1`,
		} {
			s.report(nil, parse(t, `cluster_stats {`+text+` upstream_locality_stats { total_issued_requests: 1 `+locality+`}}`), now, nil)
		}
	}
	got := s.take(now, nil)
	if len(got) != 3 {
		t.Fatalf("%d clusters, expected 3", len(got))
	}
	for _, c := range got {
		if n := len(c.GetUpstreamLocalityStats()); n != 6 {
			t.Errorf("%d localities, expected 6", n)
		}
		for _, l := range c.GetUpstreamLocalityStats() {
			if l.GetTotalIssuedRequests() != 1 {
				t.Errorf("issued %d", l.GetTotalIssuedRequests())
			}
		}
	}
}

// TestPeriods: the periods of a cluster's reports neither overlap nor leave gaps,
// so that what the origin computes from them is the rate; only the first begins
// where the client says.
func TestPeriods(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	s := emptySums()
	client := func(second, interval int) {
		stats := of("c", zone("z", 1, 0))
		stats[0].LoadReportInterval = &durationpb.Duration{Seconds: int64(interval)}
		s.report(nil, stats, at(second), nil)
	}
	period := func(second, want int) {
		t.Helper()
		got := s.take(at(second), nil)
		if len(got) != 1 || got[0].GetLoadReportInterval().AsDuration() != time.Duration(want)*time.Second {
			t.Fatalf("got %v, expected one cluster and %d s", got, want)
		}
	}
	client(100, 30)
	client(101, 10)
	period(110, 40) // from 70 on
	client(111, 15)
	client(119, 10)
	period(120, 10)
	client(125, 10)
	got := s.take(at(130), nil)
	s.giveBack(got, at(130)) // it could not be sent: the period goes on
	client(135, 10)
	period(140, 20)
	if got := s.take(at(150), nil); len(got) != 0 {
		t.Fatalf("%v although nothing was reported", got)
	}
	client(200, -5)
	client(200, 1<<40) // not believed
	period(200, 24*3600)
	if s.take(at(300), nil); s.room != 1<<20 {
		t.Fatalf("%d bytes of room, expected all", s.room)
	}
}

// TestExtremes: no value, however large or strange, spoils those of others.
func TestExtremes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		defer r.Close()
		bad, good := r.join("k"), r.join("k")
		o := <-r.outlets
		close(o.done)
		mustAsk(t, o.Outlet, everything(time.Second))
		strange := zone("z", math.MaxUint64, math.MaxUint64)
		strange.CpuUtilization = &endpointv3.UnnamedEndpointLoadMetricStats{NumRequestsFinishedWithMetric: 1, TotalMetricValue: math.NaN()}
		strange.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{
			{MetricName: "m", NumRequestsFinishedWithMetric: 1, TotalMetricValue: math.Inf(1)},
			{MetricName: "n", NumRequestsFinishedWithMetric: 1, TotalMetricValue: 2},
		}
		if left := bad.Report(of("c", strange)); left != 2 {
			t.Errorf("%d things left out, expected the 2 that are no numbers", left)
		}
		ordinary := zone("z", 5, 3)
		ordinary.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{{MetricName: "m", NumRequestsFinishedWithMetric: 1, TotalMetricValue: 1}}
		good.Report(of("c", ordinary))
		bad.Leave()
		l := taken(o.Outlet)[0].GetUpstreamLocalityStats()[0]
		if l.GetTotalIssuedRequests() != math.MaxUint64 || l.GetTotalRequestsInProgress() != 3 || l.GetCpuUtilization() != nil {
			t.Errorf("got %v", l)
		}
		if m := l.GetLoadMetricStats(); len(m) != 2 || m[0].GetTotalMetricValue() != 1 || m[1].GetTotalMetricValue() != 2 {
			t.Errorf("metrics %v", m)
		}
		good.Leave()
	})
}

// TestMetadataOfEndpoints: the first that is told stays.
func TestMetadataOfEndpoints(t *testing.T) {
	s := emptySums()
	report := func(value string) {
		e := &endpointv3.UpstreamEndpointStats{Address: address("10.0.0.1"), TotalIssuedRequests: 1}
		if value != "" {
			e.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"k": structpb.NewStringValue(value)}}
		}
		l := zone("z", 1, 0)
		l.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{e}
		s.report(nil, of("c", l), time.Now(), nil)
	}
	report("")
	report("first")
	report("second")
	e := s.take(time.Now(), nil)[0].GetUpstreamLocalityStats()[0].GetUpstreamEndpointStats()
	if len(e) != 1 || e[0].GetTotalIssuedRequests() != 3 || e[0].GetMetadata().GetFields()["k"].GetStringValue() != "first" {
		t.Fatalf("got %v", e)
	}
}
