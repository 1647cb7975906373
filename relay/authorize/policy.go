package authorize

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// Rule is one rule of the configuration.
type Rule struct {
	// The name of the rule in refusals, the log and metrics; empty means "#" and its
	// position, from 1. Unique.
	Name string `yaml:"name"`
	// A CEL expression over node, peer and listener, of type bool. Required.
	Match string `yaml:"match"`
	// Refuses the clients that match, instead of allowing them.
	Deny bool `yaml:"deny"`
}

// anyName is the name of the only rule that may do without an expression.
const anyName = "any"

// Any is the list that lets in every client, which has to be asked for in so many
// words.
func Any() []Rule { return []Rule{{Name: anyName}} }

// IsAny reports whether a list is that of [Any].
func IsAny(list []Rule) bool { return len(list) == 1 && list[0] == Rule{Name: anyName} }

// maxName bounds the name of a rule, in bytes: it is a label of metrics.
const maxName = 100

// Policy is a compiled list of rules. It is never changed and safe for concurrent
// use.
type Policy struct {
	rules []rule // none lets in everybody
	reads aggregation.Reads
}

type rule struct {
	name      string
	config    Rule
	condition *aggregation.Condition
}

// Compile checks and compiles a list of rules; an empty one and that of [Any] let in
// every client. The error joins an [*aggregation.CompileError] for each mistake
// found.
func Compile(list []Rule) (*Policy, error) {
	p := &Policy{}
	if len(list) == 0 || IsAny(list) {
		return p, nil
	}
	env, err := aggregation.NewEnv(0)
	if err != nil {
		return nil, err
	}
	var errs []error
	names := make(map[string]int, len(list))
	for i, config := range list {
		fail := func(field, source string, is aggregation.Issue) {
			errs = append(errs, &aggregation.CompileError{
				List: "authorization.rules", Index: i, Rule: config.Name, Field: field,
				Source: source, Line: is.Line, Column: is.Column, Message: is.Message,
			})
		}
		r := rule{name: config.Name, config: config}
		if r.name == "" {
			r.name = fmt.Sprintf("#%d", i+1)
		}
		if len(r.name) > maxName || strings.ContainsFunc(r.name, func(c rune) bool { return !unicode.IsPrint(c) || c == unicode.ReplacementChar }) {
			fail("name", "", aggregation.Issue{Message: fmt.Sprintf("%q is not a name, expected at most %d printable characters", r.name, maxName)})
		}
		if first, taken := names[r.name]; taken {
			fail("name", "", aggregation.Issue{Message: fmt.Sprintf("%q is already the name of authorization.rules[%d]", r.name, first)})
		} else {
			names[r.name] = i
		}
		var issues []aggregation.Issue
		if r.condition, issues = compileMatch(env, config); r.condition != nil {
			p.reads.Fields, p.reads.Client = p.reads.And(r.condition.Reads()), p.reads.Client || r.condition.ReadsClient()
		}
		for _, is := range issues {
			fail("match", config.Match, is)
		}
		p.rules = append(p.rules, r)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return p, nil
}

// compileMatch compiles a rule's expression; nil after a mistake.
func compileMatch(env *aggregation.Env, config Rule) (*aggregation.Condition, []aggregation.Issue) {
	if strings.TrimSpace(config.Match) == "" {
		return nil, []aggregation.Issue{{Message: `is missing, expected a CEL expression like peer.spiffe_id == "spiffe://corp/ns/" + node.cluster; to allow every client, set allow_any in authorization`}}
	}
	c, issues := env.Condition(config.Match)
	if c != nil && !config.Deny && !c.ReadsClient() {
		issues = []aggregation.Issue{{Line: 1, Column: 1, Message: "allows every client that claims the right Node: " +
			`compare node with peer, or name the listener where the claim is enough, as in listener == "default" && (…)`}}
	}
	return c, issues
}

// Open reports whether every client is let in.
func (p *Policy) Open() bool { return p == nil || len(p.rules) == 0 }

// Reads says what of a Node the rules read. Whatever else differs, [Policy.Check]
// gives the same.
func (p *Policy) Reads() aggregation.Fields {
	if p == nil {
		return aggregation.Fields{}
	}
	return p.reads.Fields
}

// ReadsAll is Reads, with whether a rule reads what the connection proves.
func (p *Policy) ReadsAll() aggregation.Reads {
	if p == nil {
		return aggregation.Reads{}
	}
	return p.reads
}

// Check decides whether a client may be what node says, which is not nil; a nil
// Policy lets in everybody. It neither changes nor keeps node. The error is nil or a
// [*Refusal].
func (p *Policy) Check(node *corev3.Node, peer aggregation.Peer) error {
	if r := p.check(node, peer, nil); r != nil {
		return r
	}
	return nil
}

// check is Check, reporting each rule to outcome (if not nil) that that is tried.
func (p *Policy) check(node *corev3.Node, peer aggregation.Peer, outcome func(i int, matched bool, err error)) *Refusal {
	if p.Open() {
		return nil
	}
	for i := range p.rules {
		r := &p.rules[i]
		matched, err := r.condition.Matches(node, peer)
		if outcome != nil {
			outcome(i, matched, err)
		}
		switch {
		case err != nil:
			return &Refusal{Rule: r.name, Reason: Failed, detail: inWords(err)}
		case matched && r.config.Deny:
			return &Refusal{Rule: r.name, Reason: Denied}
		case matched:
			return nil
		}
	}
	return &Refusal{Reason: NoRule, detail: p.names()}
}

// names lists the rules for a message.
func (p *Policy) names() string {
	const most = 10
	var b strings.Builder
	for i := range p.rules {
		switch {
		case i == most:
			fmt.Fprintf(&b, " and %d more", len(p.rules)-most)
			return b.String()
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(p.rules[i].name)
	}
	return b.String()
}
