package aggregation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// Outcome is what became of one rule for one client.
type Outcome string

// The outcomes of a rule.
const (
	Chosen     Outcome = "chosen"      // matched, and gave the key
	NoMatch    Outcome = "no match"    // match gave false
	Failed     Outcome = "failed"      // match or key refused the client
	NotReached Outcome = "not reached" // an earlier rule was chosen or failed
)

// RuleOutcome is one line of an [Explanation].
type RuleOutcome struct {
	Rule    string // its name
	Match   string // the expressions as configured; Match may be empty
	Key     string
	Outcome Outcome
	Passes  []string // Node fields that the rule passes upstream, sorted
	Rollout string   // the policy for changes; empty for none
}

// Explanation says how Resolve comes to its answer for one client.
type Explanation struct {
	Rules   []RuleOutcome // in order
	Result  Result        // zero if refused
	Refusal *Refusal      // nil if there is a result
}

// Explain resolves a client as [Rules.Resolve] does and says how.
func (rs *Rules) Explain(node *corev3.Node, peer Peer) Explanation {
	var ex Explanation
	for _, r := range rs.rules {
		o := RuleOutcome{Rule: r.name, Match: r.config.Match, Key: r.config.Key, Outcome: NotReached, Rollout: r.config.Rollout}
		for _, p := range r.paths {
			o.Passes = append(o.Passes, p.String())
		}
		ex.Rules = append(ex.Rules, o)
	}
	last := -1
	ex.Result, ex.Refusal = rs.resolve(node, peer, nil, func(i int, matched bool, err error) {
		last = i
		switch {
		case err != nil:
			ex.Rules[i].Outcome = Failed
		case matched:
			ex.Rules[i].Outcome = Chosen
		default:
			ex.Rules[i].Outcome = NoMatch
		}
	})
	if ex.Refusal != nil && last >= 0 && ex.Rules[last].Outcome == Chosen {
		ex.Rules[last].Outcome = Failed // it matched, and its key refused the client
	}
	return ex
}

// String is the explanation for a terminal.
func (ex Explanation) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY RULE\tOUTCOME\tMATCH\tKEY\tPASSED FIELDS")
	for _, r := range ex.Rules {
		match, passes := inline(r.Match), strings.Join(r.Passes, ", ")
		if match == "" {
			match = "(all clients)"
		}
		if passes == "" {
			passes = "(none)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Rule, r.Outcome, match, inline(r.Key), passes)
	}
	w.Flush() // cannot fail: it writes to memory
	if ex.Refusal != nil {
		fmt.Fprintf(&b, "\nrefused: %s (%s)\n", ex.Refusal, ex.Refusal.Code())
		return b.String()
	}
	fmt.Fprintf(&b, "\nkey: %s\n", ex.Result.Key)
	if ex.Result.Rollout != "" {
		fmt.Fprintf(&b, "rollout: %s\n", ex.Result.Rollout)
	}
	fmt.Fprintf(&b, "Node for the control plane: %s\n", nodeJSON(ex.Result.Node))
	return b.String()
}

// inline puts an expression on one line.
func inline(expr string) string { return strings.Join(strings.Fields(expr), " ") }

// nodeJSON writes a Node with the proto's field names. It indents by itself, as
// protojson varies its spaces on purpose.
func nodeJSON(n *corev3.Node) string {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(n)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return "(" + err.Error() + ")"
	}
	return out.String()
}
