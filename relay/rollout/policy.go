package rollout

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is what a policy does with changes.
type Mode string

const (
	// Off: all changes pass at once. The default.
	Off Mode = "off"
	// Observe: all changes pass at once, and the decisions are recorded that would have been made.
	Observe Mode = "observe"
	// Manual: changes are held, and each step waits for an operator.
	Manual Mode = "manual"
	// Automatic: changes are held, and steps follow each other unless a verdict fails.
	Automatic Mode = "automatic"
)

// Modes are the modes that a configuration may have.
var Modes = []Mode{Automatic, Manual, Observe, Off}

// Holds reports whether changes are held.
func (m Mode) Holds() bool { return m == Automatic || m == Manual }

// Decides reports whether there are decisions at all.
func (m Mode) Decides() bool { return m.Holds() || m == Observe }

// Share is a part of the clients, from 0 to 1. As text it is a percentage, such as 12.5%.
type Share float64

// ParseShare returns the share that a text such as 1% has.
func ParseShare(text string) (Share, error) {
	number, is := strings.CutSuffix(strings.TrimSpace(text), "%")
	percent, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !is || err != nil || !(percent >= 0 && percent <= 100) {
		return 0, errors.New("expected a percentage from 0% to 100%, such as 1% or 12.5%")
	}
	return Share(percent / 100), nil
}

// UnmarshalText reads a percentage.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// MarshalText writes a percentage.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Share) String() string {
	return strconv.FormatFloat(float64(s)*100, 'g', 12, 64) + "%"
}

// Of returns how many of n clients the share is, at least one.
func (s Share) Of(n int) int { return max(1, int(float64(s)*float64(n)+1e-9)) }

// Policy is how changes of a key are released. It does not change once a [Key] has it.
type Policy struct {
	Name string
	Mode Mode
	// Types are the gated types, by their names in [TypeNames] or their URLs.
	Types    []string
	Settle   Settle
	Scouts   ScoutsOf
	Steps    []Step
	Final    time.Duration // the bake after all clients have the revision
	Canaries Canaries
	FailIf   FailIf
	Checks   []Check
	OnFail   OnFail
	Newer    Newer
	// Longest is how long a rollout takes before an alarm. It releases nothing.
	Longest  time.Duration
	Upstream Upstream
}

// Settle is when a revision is cut: after Quiet without a change, or Max after the first one.
type Settle struct{ Quiet, Max time.Duration }

// ScoutsOf is how scouts are chosen: one for each value of the CEL text By, at most Most.
type ScoutsOf struct {
	By   string
	Most int
}

// Step is a share of the affected clients, and how long it bakes.
type Step struct {
	Share   Share
	Bake    time.Duration
	Approve bool // an operator has to approve it
}

// Canaries is which clients may be canaries. Match and Never are CEL conditions, empty for all and
// none; Spread is a CEL text, of which each value has a canary first.
type Canaries struct {
	Match, Spread, Never string
	// Small is the number of affected clients below which scouts and one bake are enough.
	Small int
}

// FailIf is when signals fail a step. A signal with zero values is not measured.
type FailIf struct {
	NACKs      int // clients
	Unanswered Unanswered
	Lost       Lost
	Errors     Errors
}

// Unanswered fails a step if this many clients have not answered within a time.
type Unanswered struct {
	Clients int
	Within  time.Duration
}

// Lost fails a step if this many canaries end their streams, and many more than in the control group.
type Lost struct {
	Clients      int
	TimesControl float64
}

// Errors fails a step if the rate of failed requests is certainly above that of the control group by
// a difference. Both groups need this many requests first.
type Errors struct {
	AboveControl Share
	Requests     uint64
}

// Check is a question to another system: a Prometheus query, or a webhook.
type Check struct {
	Name       string
	Prometheus string // URL
	Query      string // see [ParseQuery]
	Fail       string // a comparison, such as "> 0.01"
	Webhook    string // URL
	// TokenFile has a token that the system requires; empty for none.
	TokenFile string
	// AllowPlaintext says that the URL may be one of http on another machine.
	AllowPlaintext bool
	Timeout        time.Duration
	Every          time.Duration
	NoData         NoData
}

// NoData is what a check without an answer means. It is never a pass.
type NoData string

const (
	// WaitForData: the step waits for an answer. The default.
	WaitForData NoData = "wait"
	// FailWithoutData: the step fails if the bake ends without an answer.
	FailWithoutData NoData = "fail"
)

// OnFail is what happens to canaries when a verdict fails.
type OnFail string

const (
	// RollBack: they return to the stable revision. The default.
	RollBack OnFail = "rollback"
	// HoldThere: they keep the revision until an operator decides. No other client gets it.
	HoldThere OnFail = "hold"
)

// Newer is what happens if a newer revision arrives while one is on its way.
type Newer string

const (
	// Restart: the newer one starts from its scouts, and supersedes the one on its way.
	Restart Newer = "restart"
	// AfterThis: it waits for the end of the one on its way.
	AfterThis Newer = "wait"
)

// Upstream is what the control plane gets about the changes of gated types (K1, K2).
type Upstream struct {
	// Answer is when a response of a gated type is answered.
	Answer Answer
	// Within bounds how long the answer waits for scouts.
	Within time.Duration
	// LateNACK says that a failure after the answer is reported by one more request, at most once for each
	// revision and type.
	LateNACK bool
}

// Answer is when a response of a gated type is answered.
type Answer string

const (
	// AfterScouts: once the scouts have answered, which may be a NACK.
	AfterScouts Answer = "scouts"
	// AtOnce: when it is stored, as without a policy.
	AtOnce Answer = "stored"
)

// NeedsApproval reports whether an operator has to approve a step: 0 is the scouts, and the one
// after all Steps is the step to all clients.
func (p *Policy) NeedsApproval(step int) bool {
	if p.Mode == Manual {
		return true
	}
	return p.Mode == Automatic && step >= 1 && step <= len(p.Steps) && p.Steps[step-1].Approve
}

// Gates reports whether changes of the type with a URL are held.
func (p *Policy) Gates(typeURL string) bool {
	return p != nil && p.Mode.Holds() && p.Includes(typeURL)
}

// Includes reports whether the type with a URL is one of the policy's.
func (p *Policy) Includes(typeURL string) bool {
	return slices.ContainsFunc(p.Types, func(name string) bool { return URLOf(name) == typeURL })
}
