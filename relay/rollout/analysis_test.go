package rollout

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestJudge holds the verdict for each signal, and the reason that operators read.
func TestJudge(t *testing.T) {
	well := Arm{Clients: 100, Present: 100, Answered: 100}
	other := Arm{Clients: 100, Present: 100}
	for _, tc := range []struct {
		name   string
		change func(p *Policy, c *Counts)
		want   Outcome
		reason string // begins with the signal
	}{
		{"well", func(*Policy, *Counts) {}, Passes, ""},
		{"nothing known", func(_ *Policy, c *Counts) { *c = Counts{} }, NotEnough, "answers"},
		{"one has rejected it, and may", func(p *Policy, c *Counts) {
			p.FailIf.NACKs = 2
			c.Canary.Answered--
			c.Canary.Rejected, c.Canary.NACKs = 1, 1
		}, Passes, ""},
		{"one has to answer", func(_ *Policy, c *Counts) { c.Canary.Answered-- }, NotEnough, "answers"},
		{"all have left", func(_ *Policy, c *Counts) { c.Canary.Present, c.Canary.Answered = 0, 0 }, NotEnough, "answers"},
		{"some of all clients have to answer", func(_ *Policy, c *Counts) { c.Final = true; c.Canary.Answered = 7 }, Passes, ""},
		{"a NACK", func(_ *Policy, c *Counts) { c.Canary.NACKs = 1 }, Fails, "nacks: fail, 1 canaries have rejected it, the limit is 1"},
		{"a NACK below the limit", func(p *Policy, c *Counts) { p.FailIf.NACKs = 2; c.Canary.NACKs = 1 }, Passes, ""},
		{"a NACK without a limit", func(p *Policy, c *Counts) { p.FailIf.NACKs = 0; c.Canary.NACKs = 9 }, Passes, ""},
		{"late", func(_ *Policy, c *Counts) { c.Canary.Late = 1 }, Fails, "unanswered"},
		{"late without a limit", func(p *Policy, c *Counts) { p.FailIf.Unanswered = Unanswered{}; c.Canary.Late = 1 }, Passes, ""},
		{"7 of 100 are lost", func(_ *Policy, c *Counts) { c.Canary.Lost = 7 }, Fails, "lost: fail, 7 of 100 canaries were lost and 0 of 100 others"},
		{"6 of 100 are lost", func(_ *Policy, c *Counts) { c.Canary.Lost = 6 }, Passes, ""},
		{"many are lost in both arms", func(_ *Policy, c *Counts) { c.Canary.Lost, c.Control.Lost = 60, 30 }, Passes, ""},
		{"three times as many", func(_ *Policy, c *Counts) { c.Canary.Lost, c.Control.Lost = 60, 20 }, Fails, "lost"},
		{"both are lost", func(_ *Policy, c *Counts) { c.Canary = Arm{Clients: 2, Lost: 2} }, Fails, "lost: fail, all 2"},
		{"the only one is lost", func(_ *Policy, c *Counts) { c.Canary = Arm{Clients: 1, Lost: 1} }, NotEnough, "answers"},
		{"no control group", func(_ *Policy, c *Counts) { c.Control = Arm{}; c.Canary.Lost = 2 }, Fails, "lost"},
		{"no control group, one is lost", func(_ *Policy, c *Counts) { c.Control = Arm{}; c.Canary.Lost = 1 }, Passes, ""},
		{"lost without a limit", func(p *Policy, c *Counts) { p.FailIf.Lost = Lost{}; c.Canary.Lost = 100 }, Passes, ""},
		{"errors", func(_ *Policy, c *Counts) {
			c.Canary.Requests, c.Canary.Errors, c.Control.Requests, c.Control.Errors = 1000, 50, 1000, 1
		}, Fails, "errors: fail, 5% of the requests of canaries failed and 0.1% of others"},
		{"errors of few requests", func(_ *Policy, c *Counts) {
			c.Canary.Requests, c.Canary.Errors, c.Control.Requests, c.Control.Errors = 499, 499, 1000, 1
		}, Passes, ""},
		{"errors in both arms", func(_ *Policy, c *Counts) {
			c.Canary.Requests, c.Canary.Errors, c.Control.Requests, c.Control.Errors = 1000, 50, 1000, 40
		}, Passes, ""},
		{"more errors than requests", func(_ *Policy, c *Counts) {
			c.Canary.Requests, c.Canary.Errors, c.Control.Requests, c.Control.Errors = 1000, 5000, 1000, 0
		}, Fails, "errors"},
		{"a check without an answer", func(p *Policy, _ *Counts) { p.Checks = []Check{{Name: "slo"}} }, NotEnough, "check slo: not enough data, no answer"},
		{"a check that is not measured", func(p *Policy, c *Counts) {
			p.Checks, c.Checks = []Check{{Name: "slo"}}, []CheckResult{{Name: "slo", Outcome: NotMeasured}}
		}, NotEnough, "check slo"},
		{"a check that passes", func(p *Policy, c *Counts) {
			p.Checks, c.Checks = []Check{{Name: "slo"}}, []CheckResult{{Name: "slo", Outcome: Passes, Text: "0"}}
		}, Passes, ""},
		{"a check that fails", func(p *Policy, c *Counts) {
			p.Checks, c.Checks = []Check{{Name: "slo"}}, []CheckResult{{Name: "slo", Outcome: Fails, Text: "0.2 > 0.01"}}
		}, Fails, "check slo: fail, 0.2 > 0.01"},
		{"another check passes", func(p *Policy, c *Counts) {
			p.Checks, c.Checks = []Check{{Name: "slo"}}, []CheckResult{{Name: "smoke", Outcome: Passes}}
		}, NotEnough, "check slo"},
		{"no data during the bake", func(p *Policy, _ *Counts) { p.Checks = []Check{{Name: "slo", NoData: FailWithoutData}} }, NotEnough, "check slo"},
		{"no data after the bake", func(p *Policy, c *Counts) {
			p.Checks, c.BakeOver = []Check{{Name: "slo", NoData: FailWithoutData}}, true
		}, Fails, "check slo"},
		{"an answer on its way after the bake", func(p *Policy, c *Counts) {
			p.Checks, c.BakeOver = []Check{{Name: "slo", NoData: FailWithoutData}}, true
			c.Checks = []CheckResult{{Name: "slo", Reply: Asking}}
		}, NotEnough, "check slo"},
		{"a system that wants more time after the bake", func(p *Policy, c *Counts) {
			p.Checks, c.BakeOver = []Check{{Name: "slo", NoData: FailWithoutData}}, true
			c.Checks = []CheckResult{{Name: "slo", Reply: MoreTime}}
		}, NotEnough, "check slo"},
		{"a comparison with the control group in the final bake", func(p *Policy, c *Counts) {
			p.Checks, c.Final = []Check{{Name: "slo", Query: `up{pod=~"{{control}}"}`}}, true
		}, Passes, ""},
		{"a query about canaries in the final bake", func(p *Policy, c *Counts) {
			p.Checks, c.Final = []Check{{Name: "slo", Query: `up{pod=~"{{canaries}}"}`}}, true
		}, NotEnough, "check slo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c := Preset(Standard), Counts{Canary: well, Control: other}
			tc.change(p, &c)
			if v := Judge(p, &c); v.Outcome != tc.want || !strings.HasPrefix(v.Reasons(), tc.reason) || (tc.reason == "") != (v.Reasons() == "") {
				t.Errorf("%v: %s; expected %v: %s", v.Outcome, v.Reasons(), tc.want, tc.reason)
			}
		})
	}
}

// TestNoDataIsNoPass holds over random counts that a verdict passes only if canaries have answered,
// and if each check has passed.
func TestNoDataIsNoPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Preset(Standard)
		var c Counts
		small := rapid.IntRange(0, 3)
		c.Canary = Arm{Clients: small.Draw(t, "clients"), Present: small.Draw(t, "present"), Answered: small.Draw(t, "answered"), Lost: small.Draw(t, "lost"), Requests: 1000, Errors: uint64(small.Draw(t, "errors"))}
		c.Control = Arm{Clients: small.Draw(t, "others"), Lost: small.Draw(t, "lost others"), Requests: 1000}
		c.BakeOver, c.Final = rapid.Bool().Draw(t, "over"), rapid.Bool().Draw(t, "final")
		passed := true
		for _, name := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "checks")] {
			p.Checks = append(p.Checks, Check{Name: name})
			outcome := Outcome(rapid.IntRange(0, int(Fails)+1).Draw(t, name))
			if outcome <= Fails {
				c.Checks = append(c.Checks, CheckResult{Name: name, Outcome: outcome})
			}
			passed = passed && outcome == Passes
		}
		v := Judge(p, &c)
		if v.Outcome == Passes && (c.Canary.Answered == 0 || !passed || v.Reasons() != "") {
			t.Fatalf("passes with %+v", c)
		}
		if v.Outcome != Passes && v.Reasons() == "" {
			t.Fatalf("%v without a reason", v.Outcome)
		}
	})
}

// TestScaled holds that the losses of a control group are scaled to a longer time, rounded up, and
// never to a shorter one.
func TestScaled(t *testing.T) {
	a := Arm{Clients: 100, Lost: 3}
	for to, want := range map[time.Duration]int{time.Minute: 3, 5 * time.Minute: 3, 9 * time.Minute: 6, 10 * time.Minute: 6, 10 * time.Hour: 100} {
		if got := a.Scaled(5*time.Minute, to); got.Lost != want || got.Clients != 100 {
			t.Errorf("%v: %d, expected %d", to, got.Lost, want)
		}
	}
	if a.Scaled(0, time.Hour).Lost != 3 {
		t.Error("no time is scaled")
	}
}

// TestThresholds holds what comparisons mean, and which texts are none.
func TestThresholds(t *testing.T) {
	for text, want := range map[string][3]Outcome{ // of 0, 1 and 2
		"> 1": {Passes, Passes, Fails}, ">=1": {Passes, Fails, Fails}, " < 1 ": {Fails, Passes, Passes}, "<= 1e0": {Fails, Fails, Passes},
	} {
		threshold, err := ParseThreshold(text)
		if got := [3]Outcome{threshold.Of(0), threshold.Of(1), threshold.Of(2)}; err != nil || got != want {
			t.Errorf("%q: %v, expected %v, %v", text, got, want, err)
		}
		if threshold.Of(math.NaN()) != NotEnough {
			t.Errorf("%q passes without a number", text)
		}
	}
	for _, text := range []string{"", "1", ">", "> x", "== 1", "> NaN", "> Inf", "!= 2", "=> 1"} {
		if threshold, err := ParseThreshold(text); err == nil {
			t.Errorf("%q is %v", text, threshold)
		}
	}
	if (Threshold{}).Of(1) != NotEnough {
		t.Error("no comparison passes")
	}
}
