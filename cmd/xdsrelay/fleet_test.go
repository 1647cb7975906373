package main

import (
	"context"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/ops/opstest"
)

// fleet is a tier with many clients.
type fleet struct{ *opstest.Fleet }

// command calls a command of which the first node is asked.
func (f fleet) command(tb testing.TB, line string) (stdout string) {
	tb.Helper()
	cfg := admin.Config{Title: "fleet", Metrics: prometheus.NewRegistry()}
	cfg.Tier.Model = f.Model()
	cfg.Tier.Members = func() ops.Members { return ops.Members{Self: "a"} }
	cfg.Settings = func() ops.Settings { return ops.Settings{} }
	cfg.Tier.Own = func() ops.NodeState { return ops.NodeState{} }
	cfg.Tier.Nodes = func(context.Context) ([]ops.NodeState, []ops.Silent) { return nil, nil }
	cfg.Origins = func() []ops.OriginInfo { return nil }
	server := httptest.NewServer(admin.Handler(cfg))
	defer server.Close()
	var out, errs strings.Builder
	a := &app{stdout: &out, stderr: &errs, dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	if code := a.run(tb.Context(), strings.Fields(line)); code != 0 {
		tb.Fatalf("%s: exit code %d: %s", line, code, errs.String())
	}
	return out.String()
}

// TestManyClients: the table of 10,000 clients begins with their numbers, and has the worst of them. Its cost
// is that of looking at each client once: what nodes send, and what is allocated, is for one page.
func TestManyClients(t *testing.T) {
	f := fleet{opstest.New(10_000, time.Now())}
	var lines []string
	allocs := testing.AllocsPerRun(1, func() { lines = strings.Split(strings.TrimSpace(f.command(t, "status")), "\n") })
	if want := "10000 clients: 9500 SYNCED, 300 STALE, 200 NACKED; 100 with missing resources"; lines[0] != want {
		t.Errorf("the first line is %q, expected %q", lines[0], want)
	}
	if want := "LDS 0123456789ab… rejected (NACK) by 200 clients of 1 key, such as client"; !strings.HasPrefix(lines[1], want) {
		t.Errorf("the second line is %q, expected %q", lines[1], want)
	}
	rows := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, "sidecar~") })
	if len(rows) != usualRows || slices.ContainsFunc(rows, func(r string) bool { return !strings.Contains(r, "NACKED") }) {
		t.Errorf("%d rows, expected %d that are NACKED", len(rows), usualRows)
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "50 of 10000 clients are shown") || !strings.Contains(last, "--limit 0") {
		t.Errorf("the last line is %q", last)
	}
	if sent := f.Bytes.Load() / 2; sent > 500_000 {
		t.Errorf("the nodes sent %d bytes", sent)
	}
	if allocs > 120_000 {
		t.Errorf("%.0f allocations, expected 12 for each client at most", allocs)
	}
	if names := f.command(t, "status -o name --state nacked"); strings.Count(names, "\n") != 200 {
		t.Errorf("%d names are NACKED, expected 200", strings.Count(names, "\n"))
	}
}

// TestSortedPages: pages in an order have all clients once, in that order, and the first one has their numbers.
func TestSortedPages(t *testing.T) {
	model := opstest.New(300, time.Now()).Model()
	pages := func(sort ops.Sort, limit string) (all []ops.Client) {
		v := url.Values{"sort": {string(sort)}, "limit": {limit}}
		for first := true; ; first = false {
			q, err := ops.ParseQuery(v)
			if err != nil {
				t.Fatal(err)
			}
			page, err := model.Clients(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if (page.Summary != nil) != first || first && page.Summary.Clients != 300 {
				t.Fatalf("the summary is %+v", page.Summary)
			}
			all = append(all, page.Clients...)
			if page.Next == "" {
				return all
			}
			v.Set("page", page.Next)
		}
	}
	names := func(all []ops.Client) []string { return namesOf(all, func(c *ops.Client) string { return c.Name }) }
	for _, sort := range ops.Sorts() {
		whole := pages(sort, "5000")
		if got := names(pages(sort, "7")); len(got) != 300 || !slices.Equal(got, names(whole)) {
			t.Errorf("%s: %d clients on small pages, in another order than on one", sort, len(got))
		}
		switch first, last := whole[0], whole[299]; {
		case sort == ops.ByState && (first.State != ops.Nacked || last.State != ops.Synced || last.Missing > 0):
			t.Errorf("the worst is %s, the best %s", first.State, last.State)
		case sort == ops.BySince && (first.State != ops.Stale && first.State != ops.Nacked || whole[1].Since.Before(first.Since)):
			t.Errorf("the first out of sync is %s since %s, the next since %s", first.State, first.Since, whole[1].Since)
		}
	}
	for _, v := range []url.Values{{"sort": {"age"}}, {"brief": {"perhaps"}}, {"sort": {"state"}, "page": {"e30"}}, {"page": {"eyJyIjp7fX0"}}} {
		if q, err := ops.ParseQuery(v); err == nil {
			t.Errorf("%v was read as %+v", v, q)
		}
	}
}

// BenchmarkFleet is what a command costs over 10,000 clients, in the command and on all nodes together.
func BenchmarkFleet(b *testing.B) {
	f := fleet{opstest.New(10_000, time.Now())}
	for _, line := range []string{"status", "status -o wide", "status -o json", "status -o name"} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				size = len(f.command(b, line))
			}
			b.ReportMetric(float64(size), "out-bytes")
		})
	}
}
