package bench

import (
	"flag"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"xdsrelay/relay/resource"
)

// `make bench-idle` sets these; a plain `go test` tries the measurement out.
var (
	idleOut      = flag.String("idle.out", "", "measure in full, and write the report to this folder")
	idleClientsN = flag.String("idle.clients", "1000,5000", "numbers of clients")
	idleProfiles = flag.String("idle.profiles", "", "folder for profiles")
)

func TestMain(m *testing.M) {
	Child()
	goleak.VerifyTestMain(m)
}

// TestMeasureIdle measures a few clients and checks that the report can be
// right: goroutines are counted exactly, and every phase is there. With
// -idle.out it measures in full.
func TestMeasureIdle(t *testing.T) {
	cfg := IdleConfig{Clients: []int{4, 8}, Resources: []int{5}, Logf: t.Logf}
	out := *idleOut
	if out == "" {
		out = t.TempDir()
	} else {
		cfg = IdleConfig{Clients: nil, Resources: []int{100, 1000}, Profiles: *idleProfiles, Logf: t.Logf}
		for s := range strings.SplitSeq(*idleClientsN, ",") {
			n, err := strconv.Atoi(s)
			if err != nil {
				t.Fatalf("-idle.clients: %v", err)
			}
			cfg.Clients = append(cfg.Clients, n)
		}
	}
	report, err := MeasureIdle(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if want := 3*len(cfg.Clients) + 2*len(cfg.Clients)*(len(cfg.Resources)-1); len(report.Runs) != want {
		t.Fatalf("%d runs, expected %d", len(report.Runs), want)
	}
	for _, run := range report.Runs {
		for _, p := range run.Phases {
			// A receive-only handler beside the transport's three.
			if got := math.Round(p.PerStream.Goroutines); got < 3 || got > 4 {
				t.Errorf("%s %s, %s: %.2f goroutines per stream, expected 3 or 4", run.Server, run.Variant, p.Phase, p.PerStream.Goroutines)
			}
		}
	}
	if err := report.Write(out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(out + "/idle-streams.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "each further stream") {
		t.Errorf("the report does not say what a further stream adds:\n%s", page)
	}
	if rows := strings.Count(string(page), "| relay "); rows < 3*(len(report.Runs)-len(cfg.Clients)) {
		t.Errorf("%d rows for the relay in the report:\n%s", rows, page)
	}
}

// TestIdleContent holds that the changes, one after the other, lead to the
// content of the revision: the clients are compared with that.
func TestIdleContent(t *testing.T) {
	const n = 7
	for _, typ := range idleTypes() {
		now := idleContent(typ, n, 0)
		for revision := 1; revision <= 3*n; revision++ {
			now[revision%n] = idleChange(typ, n, revision)
			for i, want := range idleContent(typ, n, revision) {
				if !now[i].SameContent(want) {
					t.Fatalf("%s, revision %d: resource %d differs", typ.URL, revision, i)
				}
			}
		}
	}
	if expectedHolding(n, 1) == expectedHolding(n, 2) {
		t.Error("two revisions look the same")
	}
	if r := idleResource(resource.TypeOf(resource.ClusterURL), 1, 0); r.Name != r.Endpoints {
		t.Errorf("cluster %q refers to endpoints %q", r.Name, r.Endpoints)
	}
}
