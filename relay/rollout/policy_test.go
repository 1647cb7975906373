package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/resource"
)

func world(t *testing.T) *World {
	t.Helper()
	env, err := aggregation.NewEnv(0)
	if err != nil {
		t.Fatal(err)
	}
	return &World{Env: env, LastGood: true, Agrees: true}
}

// TestPresets holds that presets have no mistake and no warning, and what they gate.
func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		problems, warnings := p.Validate(world(t))
		if len(problems)+len(warnings) > 0 {
			t.Errorf("%s: %v, %v", p.Name, problems, warnings)
		}
		if Preset(p.Name) == nil || !p.Gates(resource.ClusterURL) || p.Gates(resource.EndpointURL) || p.Gates(resource.SecretURL) {
			t.Errorf("%s gates other types", p.Name)
		}
		if again := (Policy{Name: Standard}).WithDefaults(); p.Name == Standard && len(again.Steps) != len(p.Steps) {
			t.Errorf("the defaults are %+v", again)
		}
	}
	if Preset("other") != nil || (*Policy)(nil).Gates(resource.ClusterURL) {
		t.Error("another preset")
	}
	mine := Policy{Name: "mine", Mode: Observe, Steps: []Step{}, Checks: []Check{{Name: "a"}}}
	if p := mine.WithDefaults(); p.Mode != Observe || len(p.Steps) != 0 || p.Checks[0].Every != 30*time.Second || mine.Checks[0].Every != 0 {
		t.Errorf("with defaults: %+v", p)
	}
}

// TestSettleLongerThanTheAnswer: a policy whose control plane cannot get a NACK in time has a warning.
func TestSettleLongerThanTheAnswer(t *testing.T) {
	for _, tc := range []struct {
		answer        Answer
		quiet, within time.Duration
		warns         bool
	}{
		{AfterScouts, 250 * time.Millisecond, 900 * time.Millisecond, false},
		{AfterScouts, 900 * time.Millisecond, 900 * time.Millisecond, true},
		{AfterScouts, time.Second, 0, false}, {AtOnce, time.Second, 900 * time.Millisecond, false},
	} {
		p := Preset(Standard)
		p.Upstream.Answer, p.Settle.Quiet, p.Upstream.Within = tc.answer, tc.quiet, tc.within
		_, warnings := p.Validate(world(t))
		if is := len(warnings) == 1 && warnings[0].Field == "settle.quiet"; is != tc.warns {
			t.Errorf("%+v: %v", tc, warnings)
		}
	}
}

// TestValidate holds that each mistake is found, with its field and what was expected.
func TestValidate(t *testing.T) {
	slo := Check{Name: "slo", Prometheus: "https://prom:9090", Query: "up", Fail: "> 0.01", Timeout: time.Second, Every: time.Minute, NoData: WaitForData}
	for _, tc := range []struct {
		change func(p *Policy, w *World)
		want   string // field and message; a warning begins with "warning: "
	}{
		{func(p *Policy, _ *World) { p.Name = "" }, "name: is missing"},
		{func(p *Policy, _ *World) { p.Mode = "auto" }, `mode: is "auto", expected automatic, manual, observe, off`},
		{func(p *Policy, _ *World) { p.OnFail = "x" }, `on_fail: is "x", expected rollback, hold`},
		{func(p *Policy, _ *World) { p.Newer = "x" }, `newer: is "x", expected restart, wait`},
		{func(p *Policy, _ *World) { p.Upstream.Answer = "x" }, `upstream.answer: is "x", expected scouts, stored`},
		{func(_ *Policy, w *World) { w.LastGood = false }, "mode: is automatic without last_known_good.store"},
		{func(_ *Policy, w *World) { w.Agrees = false }, "mode: is automatic in a tier without Redis"},
		{func(p *Policy, _ *World) { p.Types = nil }, "types: is empty, expected some of LDS"},
		{func(p *Policy, _ *World) { p.Types[1] = "EDS" }, "types[1]: is EDS, which cannot be gated: endpoints always pass"},
		{func(p *Policy, _ *World) { p.Types[0] = resource.LbEndpointURL }, "types[0]: is " + resource.LbEndpointURL + ", which cannot be gated"},
		{func(p *Policy, _ *World) { p.Types[0] = "LEDS" }, "types[0]: is LEDS, which cannot be gated"},
		{func(p *Policy, _ *World) { p.Types[0] = "VHDS" }, "types[0]: is VHDS, which cannot be gated: its resources have aliases"},
		{func(p *Policy, _ *World) { p.Types[0] = "clusters" }, `types[0]: is "clusters", expected a type URL`},
		{func(p *Policy, _ *World) { p.Types[0] = "CDS" }, "types[3]: is CDS, which is listed twice"},
		{func(p *Policy, _ *World) { p.Types = append(p.Types, "SDS") }, "warning: types[6]: is SDS"},
		{func(p *Policy, _ *World) { p.Settle.Quiet = 0 }, "settle.quiet: is 0s, expected 10ms to 1m0s"},
		{func(p *Policy, _ *World) { p.Settle.Max = 100 * time.Millisecond }, "settle.max: is 100ms, which is less than settle.quiet"},
		{func(p *Policy, _ *World) { p.Final = -1 }, "final_bake: is -1ns"},
		{func(p *Policy, _ *World) { p.Upstream.Within = time.Second }, "upstream.within: is 1s, expected 0s to 900ms"},
		{func(p *Policy, _ *World) { p.Steps = nil }, "steps: has 0 steps"},
		{func(p *Policy, _ *World) { p.Steps[1].Share = 0.005 }, "steps[1].share: is 0.5% after 1%, expected shares that rise"},
		{func(p *Policy, _ *World) { p.Steps[2].Share = 1 }, "steps[2].share: is 100%, expected more than 0% and less than 100%"},
		{func(p *Policy, _ *World) { p.Steps[0].Bake = 0 }, "steps[0].bake: is 0s, expected 1s to"},
		{func(p *Policy, _ *World) { p.Longest = time.Minute }, "longest: is 1m0s, but the bakes alone take 22m0s"},
		{func(p *Policy, _ *World) { p.Scouts.Most = 0 }, "scouts.most: is 0, expected 1 to 100"},
		{func(p *Policy, _ *World) { p.Canaries.Small = -1 }, "canaries.small: is -1"},
		{func(p *Policy, _ *World) { p.Scouts.By = "node.name" }, "scouts.by: line 1, column"},
		{func(p *Policy, _ *World) { p.Canaries.Spread = "node.locality" }, "canaries.spread: line 1, column"},
		{func(p *Policy, _ *World) { p.Canaries.Match = "node.id" }, "canaries.match: line 1, column"},
		{func(p *Policy, _ *World) { p.Canaries.Never = "has(node.metadata.pinned" }, "canaries.never: line 1, column"},
		{func(p *Policy, _ *World) { p.FailIf.NACKs = -1 }, "fail_if.nacks: is -1"},
		{func(p *Policy, _ *World) { p.FailIf.NACKs = 0 }, "warning: fail_if.nacks: is 0"},
		{func(p *Policy, _ *World) { p.FailIf.Unanswered.Clients = -1 }, "fail_if.unanswered.clients: is -1"},
		{func(p *Policy, _ *World) { p.FailIf.Unanswered.Within = 0 }, "fail_if.unanswered.within: is 0s"},
		{func(p *Policy, _ *World) { p.FailIf.Lost.Clients = -1 }, "fail_if.lost.clients: is -1"},
		{func(p *Policy, _ *World) { p.FailIf.Lost.TimesControl = 0.5 }, "fail_if.lost.times_control: is 0.5, expected 1 or more"},
		{func(p *Policy, _ *World) { p.FailIf.Errors.AboveControl = 1 }, "fail_if.errors.above_control: is 100%"},
		{func(p *Policy, _ *World) { p.Checks = slices.Repeat([]Check{slo}, 17) }, "checks: has 17 checks"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo, slo} }, `checks[1].name: is "slo", which another check has`},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Name = "" }, "checks[0].name: is missing"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Prometheus = "" }, "checks[0]: expected either prometheus or webhook"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Webhook = "https://ci" }, "checks[0]: expected either prometheus or webhook"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Query = "" }, "checks[0].query: is missing"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Fail = "" }, "checks[0].fail: is missing: the query would never fail"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Fail = "0.01" }, `checks[0].fail: is "0.01", expected >`},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Prometheus = "prom:9090" }, "checks[0].prometheus: expected a URL"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Prometheus = "http://prom" }, "checks[0].prometheus: begins with http://"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Prometheus = "https://prom/#a" }, "checks[0].prometheus: has a fragment"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Query = "up{pod=~\"{{canary}}\"}" }, "checks[0].query: has {{canary}}, expected {{key}}"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Every = 0 }, "checks[0].every: is 0s"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].Timeout = time.Hour }, "checks[0].timeout: is 1h0m0s"},
		{func(p *Policy, _ *World) { p.Checks = []Check{slo}; p.Checks[0].NoData = "pass" }, `checks[0].no_data: is "pass", expected wait, fail`},
		{func(p *Policy, _ *World) {
			p.Checks = []Check{{Name: "a", Webhook: "https://ci", Query: "up", Timeout: time.Second, Every: time.Second, NoData: WaitForData}}
		}, "checks[0]: has query or fail"},
	} {
		p, w := Preset(Standard), world(t)
		tc.change(p, w)
		problems, warnings := p.Validate(w)
		var all []string
		for _, problem := range problems {
			all = append(all, problem.String())
		}
		for _, warning := range warnings {
			all = append(all, "warning: "+warning.String())
		}
		if !slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(text, tc.want) }) {
			t.Errorf("%q, expected %q", all, tc.want)
		}
	}
	p := Preset(Standard)
	p.Mode = Off
	if problems, _ := p.Validate(&World{}); len(problems) > 0 {
		t.Errorf("off: %v", problems)
	}
}

// TestLimits holds which budgets and breakers are refused.
func TestLimits(t *testing.T) {
	if l := DefaultLimits(); len(l.Check()) > 0 {
		t.Errorf("the defaults: %v", l.Check())
	}
	for want, l := range map[string]Limits{
		"budget: has no shares":              {},
		"budget[1]: is 1% after 10%":         {Shares: []Share{0.1, 0.01}},
		"budget[0]: is 0%, expected":         {Shares: []Share{0, 1}},
		"breaker.failures: is -1":            {Shares: []Share{1}, Failures: -1},
		"breaker.within: is 0s, expected a ": {Shares: []Share{1}, Failures: 1},
	} {
		if got := l.Check(); len(got) != 1 || !strings.HasPrefix(got[0].String(), want) {
			t.Errorf("%v, expected %q", got, want)
		}
	}
}

// TestShares holds the texts of shares, and how many clients they are.
func TestShares(t *testing.T) {
	for text, want := range map[string]Share{"1%": 0.01, "12.5 %": 0.125, "0%": 0, "100%": 1} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "%", "-1%", "101%", "NaN%", "x%"} {
		if got, err := ParseShare(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	var s Share
	if err := s.UnmarshalText([]byte("0.1%")); err != nil || s.String() != "0.1%" {
		t.Errorf("%v, %v", s, err)
	}
	for n, want := range map[int]int{0: 1, 1: 1, 99: 1, 100: 1, 199: 1, 200: 2, 10_000: 100} {
		if got := Share(0.01).Of(n); got != want {
			t.Errorf("1%% of %d is %d, expected %d", n, got, want)
		}
	}
	if got := Share(0.29).Of(100); got != 29 {
		t.Errorf("29%% of 100 is %d", got)
	}
}

// TestDigests holds that a digest does not depend on the order of changes, depends on all else, and
// can be written and read.
func TestDigests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 0, 3, -1)
		changes := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) Change {
			return Change{text.Draw(t, "type"), text.Draw(t, "name"), text.Draw(t, "version"), rapid.Bool().Draw(t, "absent")}
		}), func(c Change) string { return c.TypeURL + "/" + c.Name }).Draw(t, "changes")
		d := DigestOf(slices.Clone(changes))
		if other := DigestOf(rapid.Permutation(changes).Draw(t, "order")); other != d {
			t.Fatalf("%v, expected %v", other, d)
		}
		if d.IsZero() != (len(changes) == 0) {
			t.Fatalf("%d changes are %v", len(changes), d)
		}
		for i := range changes {
			other := slices.Clone(changes)
			other[i].Absent = !other[i].Absent
			if DigestOf(other) == d || DigestOf(slices.Delete(other, i, i+1)) == d {
				t.Fatal("a change does not count")
			}
		}
		var read Digest
		written, _ := d.MarshalText()
		if err := read.UnmarshalText(written); err != nil || read != d {
			t.Fatalf("%v, %v", read, err)
		}
	})
	d := DigestOf([]Change{{resource.ClusterURL, "pay", "1", false}})
	if s := d.String(); len(s) != len("r-5f31c2a0") || !strings.HasPrefix(s, "r-") || (Digest{}).String() != "" {
		t.Errorf("shown as %q", s)
	}
	for _, text := range []string{"", "r-5f31c2a0", strings.Repeat("x", 32)} {
		if d.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is a digest", text)
		}
	}
}
