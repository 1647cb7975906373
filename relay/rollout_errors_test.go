package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// loads are the load report streams of the clients of a stage, by position.
func (s *staged) loads() (all []*xdstest.LoadStream) {
	s.t.Helper()
	for i := range s.clients {
		conn := xdstest.Dial(s.t, s.Addr())
		conn.Node = xdstest.Node(fmt.Sprint("client-", i), "demo")
		stream := conn.OpenLoad()
		_ = stream.Report()
		all = append(all, stream)
	}
	return all
}

// failing is a load report of 1,000 requests over an interval, of which some have failed.
func failing(errors uint64, over time.Duration) *endpointv3.ClusterStats {
	zone := xdstest.ZoneLoad("z", 1000, 0)
	zone.TotalSuccessfulRequests, zone.TotalErrorRequests = 1000-errors, errors
	report := xdstest.ClusterLoad("backend", zone)
	report.LoadReportInterval = durationpb.New(over)
	return report
}

// TestPolicyErrors: if the requests of canaries fail more often than those of the control group, by their load
// reports, the revision is taken back. Reports of the time before say nothing about it, and errors that both
// groups have fail nothing.
func TestPolicyErrors(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, func(p *config.RolloutPolicy) {
			p.Steps[0].Bake = time.Hour
			p.FailIf.Errors = config.RolloutErrors{AboveControl: 0.01, Requests: 500}
		})
		s.origin.ServeLoad()
		loads := s.loads()
		s.origin.Set("demo", s.revision("b")...)
		s.waitState("Stepping Bake")
		xdstest.Eventually(t, "5 canaries have it", func() bool { return len(s.with("b")) == 5 })
		canaries := s.with("b")
		report := func(canary, control *endpointv3.ClusterStats) {
			for i, stream := range loads {
				of := control
				if slices.Contains(canaries, s.clients[i]) {
					of = canary
				}
				if err := stream.Report(of); err != nil {
					t.Fatal(err)
				}
			}
		}
		report(failing(900, time.Hour), failing(0, time.Hour)) // of before
		report(failing(50, 0), failing(50, 0))
		xdstest.Eventually(t, "load reports are counted", func() bool {
			return strings.Contains(strings.Join(s.status().Findings, "\n"), "errors: pass, 5% of the requests of canaries failed and 5% of others")
		})
		report(failing(500, 0), failing(50, 0))
		is := s.waitState("Held")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "errors: fail, 27.5% of the requests of canaries failed and 5% of others") {
			t.Errorf("held: %+v", is)
		}
		s.all("the stable revision", func(c *xdstest.Auto) bool { return s.has("a")(c) && !s.has("b")(c) })
		s.check()
	})
}
