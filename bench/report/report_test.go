package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a result with two cases, three targets and two rounds.
func sample() *Result {
	r := &Result{
		Scenario: "steady", Answers: "What does a change cost?", Command: "xdsbench compare steady --rounds 2",
		Machine: Machine{
			Commit: "0123456789ab", Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Go: "go1.26", GRPC: "1.85.0",
			CPU: "a processor", Kernel: "linux/amd64", Cores: 2, MemoryMB: 24000,
		},
		Rounds: 2, Targets: []string{FloorTarget, "origin", RelayTarget},
	}
	for _, clients := range []int{1000, 5000} {
		c := Case{Setup: Setup{Variant: "delta", Clients: clients, Keys: 1, Resources: 100, Nodes: 1}}
		for round := 1; round <= 2; round++ {
			for i, target := range r.Targets {
				c.Runs = append(c.Runs, sampleRun(target, round, clients, []float64{15, 61, 16.5}[i]+float64(round-1)))
			}
		}
		r.Cases = append(r.Cases, c)
	}
	return r
}

// sampleRun is a run whose target takes some microseconds for each response.
func sampleRun(target string, round, clients int, micros float64) Run {
	n := float64(clients)
	run := Run{Target: target, Round: round, Before: Use{RSS: 20 << 20}, HeapBefore: Heap{Live: 4 << 20}}
	run.Steps = []Step{
		{
			Name: "sync", Kind: Connect, Seconds: n * micros * 20e-6, Synced: clients,
			Target: Use{CPU: n * micros * 10e-6, System: n * micros * 2e-6, RSS: 20<<20 + int64(n*micros*2000)},
			Heap:   Heap{Live: 4<<20 + int64(n*micros*700), Allocated: int64(n * micros * 30)},
			Clients: Traffic{
				Responses: int64(2 * clients), Resources: int64(200 * clients), Bytes: int64(21000 * clients), ACKs: int64(2 * clients),
			},
			Load: Load{Streams: 1, Open: 1, Requests: 4, Responses: 2, BytesIn: 400, BytesOut: 21000},
		},
		{
			Name: "one", Kind: Change, At: 3, Seconds: 10, Synced: clients, Changes: 10,
			Target:  Use{CPU: n * micros * 10e-6, System: n * micros * 3e-6, RSS: 20<<20 + int64(n*micros*2100)},
			Heap:    Heap{Live: 4<<20 + int64(n*micros*750), Allocated: int64(n * micros * 20)},
			Clients: Traffic{Responses: int64(10 * clients), Resources: int64(10 * clients), Bytes: int64(3000 * clients), ACKs: int64(10 * clients)},
			Fleet:   Use{CPU: n * 50e-6},
			Load:    Load{Open: 1, Requests: 10, Responses: 10, BytesIn: 900, BytesOut: 3000},
			Latency: sampleLatency(int64(10*clients), n*micros/1000),
		},
	}
	for i := range 26 {
		run.Samples = append(run.Samples, Sample{At: float64(i) / 2, CPU: micros / 60 * float64(i%3) / 2, RSS: 20<<20 + int64(i)<<20})
	}
	return run
}

func sampleLatency(n int64, most float64) *Latency {
	l := &Latency{Count: n, Mean: most / 2, P50: most / 2, P90: most * .9, P99: most * .99, P999: most * .999, Max: most}
	for _, p := range Percentiles() {
		l.Curve = append(l.Curve, Point{p, most * max(p, 1) / 100})
	}
	return l
}

// TestReports compares what is shown of a result with the golden files.
func TestReports(t *testing.T) {
	r := sample()
	r.Cases[1].Runs[5].Violations = map[string]Violation{"foreign-name": {Count: 3, First: "client 7: key-00001/service-00002"}}
	if !r.Failed() {
		t.Error("a relay that breaks the protocol has not failed")
	}
	older := sample()
	older.Machine.Commit = "ba9876543210"
	for i := range older.Cases[0].Runs {
		older.Cases[0].Runs[i].Steps = older.Cases[0].Runs[i].Steps[:1]
	}
	if older.Cases[0].Runs[1].Violations = r.Cases[1].Runs[5].Violations; older.Runs() != 12 || older.Failed() {
		t.Errorf("%d runs of which the references cannot fail by violations: %v", older.Runs(), older.problems())
	}
	for name, got := range map[string]string{
		"steady.txt": r.Text(), "steady.md": r.Markdown(), "drift.txt": Drift(older, r),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s (-update writes it anew):\n%s", name, got)
		}
	}
}

// TestSummary holds medians, and ratios that are taken within a round.
func TestSummary(t *testing.T) {
	r := sample()
	// A slow machine in the second round slows down reference and relay alike.
	for i := range r.Cases[0].Runs {
		if run := &r.Cases[0].Runs[i]; run.Round == 2 {
			run.Steps[1].Target = Use{CPU: 10 * r.Cases[0].Runs[i-3].Steps[1].Target.CPU}
		}
	}
	s := r.Summarize()
	cell, unit := s.Cases[0].cell(s.Targets, RelayTarget, "one", CPUPerResponse)
	if cell == nil || unit != Micros {
		t.Fatalf("no %s of the relay: %v %q", CPUPerResponse, cell, unit)
	}
	if want := 16.5; abs(cell.Min-want) > 0.01 || abs(cell.Max-10*want) > 0.1 || abs(cell.Median-5.5*want) > 0.1 {
		t.Errorf("%+v, expected from %g to ten times that", *cell, want)
	}
	if want := 16.5 / 15; abs(cell.Ratio-want) > 1e-6 || abs(cell.RatioMin-want) > 1e-6 || abs(cell.RatioMax-want) > 1e-6 {
		t.Errorf("%+v, expected the ratio %.3f in both rounds", *cell, want)
	}
	if floor, _ := s.Cases[0].cell(s.Targets, FloorTarget, "one", CPUPerResponse); floor.Ratio != 0 {
		t.Errorf("the reference has a ratio: %+v", *floor)
	}
	if none, _ := s.Cases[0].cell(s.Targets, "nobody", "one", CPUPerResponse); none != nil {
		t.Errorf("a target that is not there has %+v", *none)
	}
}

func abs(v float64) float64 { return max(v, -v) }

// TestBudgets holds that each bound can be met and missed.
func TestBudgets(t *testing.T) {
	setups := []Setup{{Variant: "delta", Clients: 100, Keys: 10}, {Variant: "delta", Clients: 100, Keys: 10, Stuck: 10}}
	tests := []struct {
		bound        Bound
		met, missed  float64 // limits
		wantMeasured string
	}{
		{AtMost, 30, 29, "30.0 µs"},
		{AtMostKeys, 3, 2.9, "3.00 µs"},
		{TimesFloor, 1.5, 1.49, "1.50 ×"},
		{FloorPlus, 10, 9, "10.0 µs"},
		{TimesFirst, 1.25, 1.2, "1.25 ×"},
		{TimesParts, 1.25, 1.2, "1.25 ×"},
		{TimesSync, 1.5, 1.4, "1.50 ×"},
		{TimesCold, 3, 2.9, "3.00 ×"},
		{EachStuck, 60, 59, "60.0 µs"},
	}
	s := &Summary{Reference: FloorTarget, Targets: []string{FloorTarget, RelayTarget}}
	for i, setup := range setups {
		s.Cases = append(s.Cases, CaseSummary{Name: setup.String(), setup: setup, Rows: []Row{{
			Step: "x", Metric: Metric{"m", "m", Micros, true},
			Cells: []Cell{{Rounds: 1, Median: 20}, {Rounds: 1, Median: 24 + 6*float64(i), Ratio: 1.2 + .3*float64(i)}},
		}, {
			Step: "sync", Metric: Metric{"m", "m", Micros, true},
			Cells: []Cell{{Rounds: 1, Median: 20}, {Rounds: 1, Median: 20}},
		}, {
			Step: "cold", Metric: Metric{"m", "m", Micros, true},
			Cells: []Cell{{Rounds: 1, Median: 20}, {Rounds: 1, Median: 10}},
		}}})
	}
	for _, test := range tests {
		for _, limit := range []float64{test.met, test.missed} {
			b := Budget{What: "w", Scenario: "s", Step: "x", Metric: "m", Bound: test.bound, Limit: limit}
			v, ok := b.judge(s, &s.Cases[1])
			if !ok || v.Measured != test.wantMeasured || v.Met != (limit == test.met) {
				t.Errorf("bound %d, limit %g: %+v, %v", test.bound, limit, v, ok)
			}
		}
	}
	for _, b := range []Budget{
		{Step: "x", Metric: "other"}, {Step: "y", Metric: "m"}, {Step: "x", Metric: "m", Bound: TimesFirst}, {Step: "x", Metric: "m", Bound: TimesParts},
	} {
		if v, ok := b.judge(s, &s.Cases[0]); ok {
			t.Errorf("%+v was judged: %+v", b, v)
		}
	}
}

// TestMissed: only limits of what hardly differs from run to run are a failure, with the limit and
// what was measured.
func TestMissed(t *testing.T) {
	r := sample()
	r.Scenario = "check"
	for c := range r.Cases {
		for i := range r.Cases[c].Runs {
			if run := &r.Cases[c].Runs[i]; run.Target == RelayTarget {
				run.Steps[1].Heap.Allocated = 60 * run.Steps[1].Clients.Responses
				run.Steps[1].Target.CPU *= 100
			}
		}
	}
	missed := r.Missed()
	if len(missed) != 2 {
		t.Fatalf("%d: %q", len(missed), missed)
	}
	for i, clients := range []string{"1,000", "5,000"} {
		if m := missed[i]; !strings.Contains(m, "objects allocated") || !strings.Contains(m, clients) || !strings.Contains(m, "floor + 6") {
			t.Errorf("%q", m)
		}
	}
	r.Scenario = "steady" // has limits of CPU
	if missed := r.Missed(); len(missed) > 0 {
		t.Errorf("%q", missed)
	}
}

// TestKeep holds that what is kept can be read again, and that the newest is
// found.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Last(dir, "steady"); err == nil || !strings.Contains(err.Error(), "steady: no result was kept") {
		t.Errorf("error %v of an empty folder", err)
	}
	r := sample()
	for _, day := range []int{2, 9, 5} {
		r.Machine.Date = time.Date(2026, 3, day, 1, 2, 3, 0, time.UTC)
		if _, err := r.Keep(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "steady-more-2027-01-01.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	r.Machine.Date = time.Date(2026, 3, 9, 1, 2, 3, 0, time.UTC)
	last, path, err := Last(dir, "steady")
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(path) != "steady-2026-03-09.json" || !reflect.DeepEqual(last, r) {
		t.Errorf("%s is not what was kept: %+v", path, last)
	}
	for name, content := range map[string]string{"a.json": "{", "b.json": "{}"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := Read(path); err == nil {
			t.Errorf("%s was read as %+v", content, r)
		}
	}
}

// TestPage holds that the page needs nothing else, says what is in the tables,
// and takes no text for markup.
func TestPage(t *testing.T) {
	r := sample()
	r.Answers = "Does <b>this</b> hold?"
	r.Targets[1] = "command:</script><script>"
	for i := range r.Cases {
		for j := range r.Cases[i].Runs {
			if run := &r.Cases[i].Runs[j]; run.Target == "origin" {
				run.Target = r.Targets[1]
			}
		}
	}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, bad := range []string{"<b>this", "src=", "href=", "@import", "url(", "command:</script>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{
		"Permission is hereby granted", "1,000 clients, delta, 100 CDS &#43; 100 EDS", "16.5 µs", "1.10×", "prefers-color-scheme: dark",
		"✓ met", "0123456789ab", r.Command,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	_, rest, _ := strings.Cut(text, "<script>const data = ")
	var data plotData
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&data); err != nil {
		t.Fatalf("the data of the plots: %v", err)
	}
	if len(data.Cases) != 2 || len(data.Cases[0].Curves) != 1 || len(data.Cases[0].CPU) != 3 || data.Cases[0].Curves[0].Values[2][5] == nil {
		t.Errorf("the data of the plots lacks something: %+v", data)
	}
}

// TestUnits holds how values are written.
func TestUnits(t *testing.T) {
	tests := []struct {
		unit Unit
		v    float64
		want string
	}{
		{Micros, 15.42, "15.4 µs"}, {Micros, 1234.5, "1,235 µs"}, {Millis, 0.456, "0.46 ms"}, {Seconds, 99.96, "100 s"},
		{Percent, 0.001, "0 %"}, {Bytes, 512, "512 B"}, {Bytes, 1536, "1.50 KiB"}, {Bytes, -1536, "-1.50 KiB"},
		{Bytes, 3 << 30, "3.00 GiB"}, {Bytes, 3 << 41, "6,144 GiB"}, {Count, 1234567, "1,234,567"}, {Count, 1.5, "1.50"},
		{Count, -1234, "-1,234"}, {Count, 0, "0"},
	}
	for _, test := range tests {
		if got := test.unit.Format(test.v); got != test.want {
			t.Errorf("%g in %q = %q, expected %q", test.v, test.unit, got, test.want)
		}
	}
}
