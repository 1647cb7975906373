package authorize

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// Outcome is what became of one rule for one client.
type Outcome string

// The outcomes of a rule.
const (
	Allows     Outcome = "allows"
	Refuses    Outcome = "refuses"
	NoMatch    Outcome = "no match"
	Fails      Outcome = "fails"
	NotReached Outcome = "not reached" // an earlier one has decided
)

// RuleOutcome is one line of an [Explanation].
type RuleOutcome struct {
	Rule    string  `json:"rule"`
	Outcome Outcome `json:"outcome"`
	Match   string  `json:"match"`
	Deny    bool    `json:"deny,omitempty"`
}

// Explanation says how [Policy.Check] comes to its answer for one client.
type Explanation struct {
	Rules   []RuleOutcome // in order; none where every client is let in
	Refusal *Refusal      // nil if the client is let in
}

// Explain decides as [Policy.Check] does and says how.
func (p *Policy) Explain(node *corev3.Node, peer aggregation.Peer) Explanation {
	var ex Explanation
	if p.Open() {
		return ex
	}
	for _, r := range p.rules {
		ex.Rules = append(ex.Rules, RuleOutcome{r.name, NotReached, r.config.Match, r.config.Deny})
	}
	ex.Refusal = p.check(node, peer, func(i int, matched bool, err error) {
		o := &ex.Rules[i]
		switch {
		case err != nil:
			o.Outcome = Fails
		case matched && o.Deny:
			o.Outcome = Refuses
		case matched:
			o.Outcome = Allows
		default:
			o.Outcome = NoMatch
		}
	})
	return ex
}

// String is the explanation for a terminal.
func (ex Explanation) String() string {
	if len(ex.Rules) == 0 {
		return "authorization: every client is allowed\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AUTHORIZATION RULE\tOUTCOME\tMATCH")
	for _, r := range ex.Rules {
		fmt.Fprintf(w, "%s\t%s\t%s\n", r.Rule, r.Outcome, strings.Join(strings.Fields(r.Match), " "))
	}
	w.Flush() // cannot fail: it writes to memory
	if ex.Refusal != nil {
		fmt.Fprintf(&b, "\nrefused: %s (%s)\n", ex.Refusal, ex.Refusal.GRPCStatus().Code())
	}
	return b.String()
}

// AsRefusal is the refusal that an error is, nil if it is none.
func AsRefusal(err error) *Refusal {
	r, _ := errors.AsType[*Refusal](err)
	return r
}
