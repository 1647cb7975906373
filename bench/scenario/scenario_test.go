package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/bench/report"
)

// TestTable holds that every scenario can be run as it is, and that every budget
// is about a step that there is.
func TestTable(t *testing.T) {
	var names []string
	steps := make(map[string][]string) // by scenario
	variants := make(map[string][]string)
	for _, s := range All() {
		if slices.Contains(names, s.Name) || !strings.HasSuffix(s.Answers, "?") {
			t.Errorf("scenario %q, %q: expected a name of its own and a question", s.Name, s.Answers)
		}
		names = append(names, s.Name)
		applied, err := s.Apply(Override{})
		if err != nil {
			t.Error(err)
		}
		for _, text := range s.Targets {
			if _, err := ParseTarget(text); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
		for i := range applied.Steps {
			step := &applied.Steps[i]
			if step.Name != "" && slices.Contains(steps[s.Name], step.Name) {
				t.Errorf("%s has two steps %s", s.Name, step.Name)
			}
			steps[s.Name] = append(steps[s.Name], step.Name)
			for _, setup := range s.Setups {
				variants[s.Name] = append(variants[s.Name], setup.Variant)
				spec := specOf(setup)
				if step.Percent > 0 {
					if change := changeOf(step.Percent, setup.Resources); change.Validate(&spec) != nil || step.Do != Storm {
						t.Errorf("%s, %s: a change of %+v", s.Name, step, change)
					}
				}
				if step.Do == Change {
					if err := step.Change.Validate(&spec); err != nil || step.Interval <= 0 || step.Count <= 0 {
						t.Errorf("%s, %s: %d changes each %v: %v", s.Name, step, step.Count, step.Interval, err)
					}
				}
			}
		}
		if found, err := Find(s.Name); err != nil || found.Answers != s.Answers {
			t.Errorf("%s is not found: %v", s.Name, err)
		}
	}
	for _, b := range report.Budgets() {
		if !slices.Contains(steps[b.Scenario], b.Step) {
			t.Errorf("budget %q is about step %s of scenario %s, which there is not", b.What, b.Step, b.Scenario)
		}
		if b.Variant != "" && !slices.Contains(variants[b.Scenario], b.Variant) {
			t.Errorf("budget %q is about %s in scenario %s, which does not measure it", b.What, b.Variant, b.Scenario)
		}
	}
	if _, err := Find("nothing"); err == nil || !strings.Contains(err.Error(), `unknown scenario "nothing", expected one of steady, `) {
		t.Errorf("error %v of an unknown scenario", err)
	}
}

// TestOverride holds what replaces parts of a scenario.
func TestOverride(t *testing.T) {
	s, err := Find("steady")
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Apply(Override{
		Variants: []string{"sotw"}, Clients: []int{10, 20}, Keys: []int{2, 5}, Resources: []int{3}, Targets: []string{"tcp"},
		Slow: []float64{5}, Stuck: []float64{10}, Duration: time.Second, Interval: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	var setups []string
	for _, setup := range got.Setups {
		setups = append(setups, setup.String())
	}
	want := []string{
		"10 clients, sotw, 2 keys, 3 CDS + 3 EDS, 5 % slow, 10 % stuck", "20 clients, sotw, 2 keys, 3 CDS + 3 EDS, 5 % slow, 10 % stuck",
		"10 clients, sotw, 5 keys, 3 CDS + 3 EDS, 5 % slow, 10 % stuck", "20 clients, sotw, 5 keys, 3 CDS + 3 EDS, 5 % slow, 10 % stuck",
	}
	if !slices.Equal(setups, want) {
		t.Errorf("setups %q, expected %q", setups, want)
	}
	if change := got.Steps[1]; change.Count != 10 || change.Interval != 100*time.Millisecond || !slices.Equal(got.Targets, []string{"tcp"}) {
		t.Errorf("%+v of %q, expected 10 changes each 100ms of tcp", change, got.Targets)
	}
	if again, _ := s.Apply(Override{}); again.Steps[1].Interval != time.Second || again.Steps[1].Count != 10 || len(again.Setups) != 2 {
		t.Errorf("the scenario itself has changed: %+v", again)
	}
	s.Setups[0].TLS = "SSL"
	if _, err := s.Apply(Override{}); err == nil || !strings.Contains(err.Error(), `TLS "SSL", expected "mTLS"`) {
		t.Errorf("error %v of an unknown way to connect", err)
	}
	s.Setups[0].TLS = report.MTLS
	if _, err := newBed(t.Context(), Programs{}, Target{kind: kindOrigin}, s.Setups[0], t.TempDir()); err == nil || !strings.Contains(err.Error(), "with TLS, expected relay or floor") {
		t.Errorf("error %v of a target without TLS", err)
	}
	s.Setups[0].TLS = ""
	for want, o := range map[string]Override{
		`scenario steady: variant "v2", expected delta or sotw`: {Variants: []string{"v2"}},
		"scenario steady: 0 clients, expected 1 to 1000000":     {Clients: []int{0}},
		"expected neither below 0":                              {Interval: -1},
	} {
		if _, err := s.Apply(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
}

// TestParseTarget holds how targets are written.
func TestParseTarget(t *testing.T) {
	for _, text := range []string{
		"relay", "relay:/tmp/xdsrelay", "origin", "origin:snapshot", "floor", "tcp", "command:./server --upstream {{.Origin}} --port {{.Port}}",
	} {
		got, err := ParseTarget(text)
		if err != nil || got.String() != text {
			t.Errorf("%q was read as %q: %v", text, got, err)
		}
		if got.kind == kindCommand {
			if line, err := got.commandLine("1.2.3.4:5", 6); err != nil || line != "./server --upstream 1.2.3.4:5 --port 6" {
				t.Errorf("%q gives %q: %v", text, line, err)
			}
		}
	}
	for _, text := range []string{"", "envoy", "floor:x", "tcp:x", "command", "command:", "command:{{", "command:{{.Nothing}}"} {
		if got, err := ParseTarget(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
