package rollout

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Arm is what was counted of the canaries, or of the control group, in a step. A client counts once
// for each signal.
type Arm struct {
	// Clients are those that were in the arm at any time of the step, and Present those that are
	// connected.
	Clients, Present int
	// Answered are those that have accepted all that they were sent, and Late those that have not
	// answered within the time of the policy. Rejected are connected ones that have rejected some of it.
	// Only of canaries.
	Answered, Late, Rejected int
	// NACKs are those that have rejected content of the revision, as distinct identities or sources.
	NACKs int
	// Lost are those whose streams have ended, and this side did not end them.
	Lost int
	// Requests and Errors are from load reports.
	Requests, Errors uint64
}

// Counts is all that a verdict is made of.
type Counts struct {
	Canary, Control Arm
	Checks          []CheckResult // an absent one has no answer
	// BakeOver says that the bake has taken its time.
	BakeOver bool
	// Final says that all clients have the revision. Control is then [Run.Baseline], scaled.
	Final bool
}

// Outcome is what a verdict, or a signal of it, says. The zero value is no pass.
type Outcome uint8

const (
	// NotEnough: there is not enough data. For a check it may also be an answer to wait.
	NotEnough Outcome = iota
	// NotMeasured: the policy, or the clients, do not measure the signal. It counts for nothing.
	NotMeasured
	// Passes and Fails.
	Passes
	Fails
)

var outcomeNames = [...]string{"not enough data", "not measured", "pass", "fail"}

func (o Outcome) String() string { return outcomeNames[o] }

// Signal is what a verdict looks at.
type Signal uint8

const (
	// AnswerSignal: canaries accept the revision.
	AnswerSignal Signal = iota
	// NACKSignal: canaries reject it.
	NACKSignal
	// UnansweredSignal: they do not answer.
	UnansweredSignal
	// LostSignal: their streams end.
	LostSignal
	// ErrorSignal: their requests fail.
	ErrorSignal
	// CheckSignal: another system says so.
	CheckSignal
)

var signalNames = [...]string{"answers", "nacks", "unanswered", "lost", "errors", "check"}

func (s Signal) String() string { return signalNames[s] }

// Finding is what one signal says, and why in words.
type Finding struct {
	Signal  Signal
	Outcome Outcome
	Name    string `json:",omitempty"` // of a check
	Text    string
}

func (f Finding) String() string {
	name := f.Signal.String()
	if f.Name != "" {
		name += " " + f.Name
	}
	return name + ": " + f.Outcome.String() + ", " + f.Text
}

// Verdict is the outcome of a step so far. It fails if a signal fails, and passes only if all that is
// configured has data and none fails.
type Verdict struct {
	Outcome  Outcome
	Findings []Finding
}

// Reasons are the findings that decide the outcome, in words; empty for a pass.
func (v Verdict) Reasons() string {
	var all []string
	for _, f := range v.Findings {
		if f.Outcome == v.Outcome && v.Outcome != Passes {
			all = append(all, f.String())
		}
	}
	return strings.Join(all, "; ")
}

const (
	// lostRisk is the p value below which more lost canaries than others are no chance.
	lostRisk = 0.01
	// errorDeviations are those of a one-sided bound of 99.9 %.
	errorDeviations = 3.090232306167813
)

// allQuarantined is the verdict if all clients that could get the revision were lost with it.
func allQuarantined(clients int) Verdict {
	return Verdict{Fails, []Finding{{LostSignal, Fails, "", fmt.Sprintf("all clients that could get it were lost with it: %d", clients)}}}
}

// Judge returns the verdict on a step.
func Judge(p *Policy, c *Counts) (v Verdict) {
	v.Findings = []Finding{judgeAnswers(c), judgeNACKs(p, c), judgeLate(p, c), judgeLost(p, c), judgeErrors(p, c)}
	for i := range p.Checks {
		v.Findings = append(v.Findings, judgeCheck(&p.Checks[i], c))
	}
	v.Outcome = Passes
	for _, f := range v.Findings {
		switch {
		case f.Outcome == Fails:
			v.Outcome = Fails
		case f.Outcome == NotEnough && v.Outcome != Fails:
			v.Outcome = NotEnough
		}
	}
	return v
}

// judgeAnswers wants at least one canary that has accepted the revision, and none that has still to
// answer. How many may reject it is for [judgeNACKs].
func judgeAnswers(c *Counts) Finding {
	f := Finding{AnswerSignal, Passes, "", fmt.Sprintf("%d of %d connected canaries have accepted it", c.Canary.Answered, c.Canary.Present)}
	if c.Canary.Answered == 0 || !c.Final && c.Canary.Answered+c.Canary.Rejected < c.Canary.Present {
		f.Outcome = NotEnough
	}
	return f
}

func judgeNACKs(p *Policy, c *Counts) Finding {
	limit := p.FailIf.NACKs
	f := Finding{NACKSignal, Passes, "", fmt.Sprintf("%d canaries have rejected it, the limit is %d", c.Canary.NACKs, limit)}
	switch {
	case limit == 0:
		f.Outcome, f.Text = NotMeasured, "the policy has no limit"
	case c.Canary.NACKs >= limit:
		f.Outcome = Fails
	}
	return f
}

func judgeLate(p *Policy, c *Counts) Finding {
	limit := p.FailIf.Unanswered
	f := Finding{UnansweredSignal, Passes, "", fmt.Sprintf("%d canaries have not answered within %v, the limit is %d", c.Canary.Late, limit.Within, limit.Clients)}
	switch {
	case limit.Clients == 0:
		f.Outcome, f.Text = NotMeasured, "the policy has no limit"
	case c.Canary.Late >= limit.Clients:
		f.Outcome = Fails
	}
	return f
}

// judgeLost compares the canaries that were lost with the control group. Pods restart without a
// reason, in both.
func judgeLost(p *Policy, c *Counts) Finding {
	limit, canary, control := p.FailIf.Lost, &c.Canary, &c.Control
	f := Finding{LostSignal, Passes, "", fmt.Sprintf("%d of %d canaries were lost", canary.Lost, canary.Clients)}
	if limit.Clients == 0 {
		return Finding{LostSignal, NotMeasured, "", "the policy has no limit"}
	}
	if canary.Lost >= 2 && canary.Lost >= canary.Clients {
		f.Outcome, f.Text = Fails, fmt.Sprintf("all %d canaries were lost", canary.Clients)
		return f
	}
	if control.Clients == 0 {
		f.Text += ", there is no control group"
		if canary.Lost >= limit.Clients {
			f.Outcome = Fails
		}
		return f
	}
	chance := Fisher(canary.Lost, canary.Clients, control.Lost, control.Clients)
	f.Text += fmt.Sprintf(" and %d of %d others, by chance with p = %.2g", control.Lost, control.Clients, chance)
	expected := limit.TimesControl * float64(control.Lost) / float64(control.Clients) * float64(canary.Clients)
	if canary.Lost >= limit.Clients && float64(canary.Lost) >= expected && chance < lostRisk {
		f.Outcome = Fails
	}
	return f
}

// judgeErrors compares the rates of failed requests. Load reports that are missing are no reason to
// wait: many clients send none.
func judgeErrors(p *Policy, c *Counts) Finding {
	limit, x, y := p.FailIf.Errors, &c.Canary, &c.Control
	needed := max(limit.Requests, 1)
	switch {
	case limit == (Errors{}):
		return Finding{ErrorSignal, NotMeasured, "", "the policy has no limit"}
	case x.Requests < needed || y.Requests < needed:
		return Finding{ErrorSignal, NotMeasured, "", fmt.Sprintf("load reports have %d requests of canaries and %d of others, expected %d of each", x.Requests, y.Requests, needed)}
	}
	low, _ := Newcombe(min(x.Errors, x.Requests), x.Requests, min(y.Errors, y.Requests), y.Requests, errorDeviations)
	f := Finding{ErrorSignal, Passes, "", fmt.Sprintf("%.3g%% of the requests of canaries failed and %.3g%% of others, at least %.3g%% more; the limit is %v",
		100*float64(x.Errors)/float64(x.Requests), 100*float64(y.Errors)/float64(y.Requests), 100*max(low, 0), limit.AboveControl)}
	if low > float64(limit.AboveControl) {
		f.Outcome = Fails
	}
	return f
}

func judgeCheck(check *Check, c *Counts) Finding {
	f := Finding{Signal: CheckSignal, Name: check.Name, Text: "no answer"}
	if !check.Applies(c.Final) {
		f.Outcome, f.Text = NotMeasured, "there is no control group in the final bake"
		return f
	}
	is := CheckResult{Text: f.Text}
	for _, r := range c.Checks {
		if r.Name == check.Name {
			is = r
		}
	}
	if f.Outcome, f.Text = is.Outcome, is.Text; f.Outcome == NotMeasured { // what is configured has to be measured
		f.Outcome = NotEnough
	}
	if f.Outcome == NotEnough && c.BakeOver && is.isMissing() && check.NoData == FailWithoutData {
		f.Outcome = Fails
	}
	return f
}

// Scaled returns an arm as it would be over another time, with losses rounded up: the control group
// of the last step, for the final bake.
func (a Arm) Scaled(from, to time.Duration) Arm {
	if from <= 0 || to <= from {
		return a
	}
	a.Lost = min(a.Clients, int(math.Ceil(float64(a.Lost)*float64(to)/float64(from))))
	return a
}

// Threshold is a comparison with a number, such as "> 0.01".
type Threshold struct {
	Sign  string
	Value float64
}

// Of returns the outcome for a value of a query: it fails if the comparison holds.
func (t Threshold) Of(value float64) Outcome {
	if math.IsNaN(value) {
		return NotEnough
	}
	var holds bool
	switch t.Sign {
	case ">":
		holds = value > t.Value
	case ">=":
		holds = value >= t.Value
	case "<":
		holds = value < t.Value
	case "<=":
		holds = value <= t.Value
	default:
		return NotEnough
	}
	if holds {
		return Fails
	}
	return Passes
}
