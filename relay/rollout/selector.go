package rollout

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// maxTraitSize bounds [Traits.Group] and [Traits.Version], in bytes: clients choose them.
const maxTraitSize = 256

// Traits are what the expressions of a policy say about a client.
type Traits struct {
	// Match and Never are canaries.match and canaries.never.
	Match, Never bool
	// Group is canaries.spread; empty if the policy does not spread canaries.
	Group string
	// Version is the version of the client's software by scouts.by.
	Version string
}

// IsEligible reports whether the client may be a canary or a scout.
func (t Traits) IsEligible() bool { return t.Match && !t.Never }

// Selector is the compiled expressions of a policy. It never changes and is safe for concurrent use.
type Selector struct {
	match, never  *aggregation.Condition // nil: all clients, and none
	spread, by    *aggregation.Text      // nil: the empty text
	reads         aggregation.Fields
	readsOfClient bool
}

// ExpressionError is a mistake in an expression of a policy.
type ExpressionError struct {
	Field  string // its path in the policy, such as canaries.match
	Source string // the expression
	aggregation.Issue
}

func (e *ExpressionError) Error() string {
	return fmt.Sprintf("%s: line %d, column %d of the expression: %s", e.Field, e.Line, e.Column, e.Message)
}

// Compile compiles the expressions of a policy. It returns all mistakes.
func (p *Policy) Compile(env *aggregation.Env) (*Selector, []*ExpressionError) {
	s := &Selector{}
	var mistakes []*ExpressionError
	failed := func(field, source string, issues []aggregation.Issue) bool {
		for _, is := range issues {
			mistakes = append(mistakes, &ExpressionError{field, source, is})
		}
		return len(issues) > 0
	}
	text := func(field, source string, to **aggregation.Text) {
		if source == "" {
			return
		}
		compiled, issues := env.Text(source)
		if failed(field, source, issues) {
			return
		}
		*to = compiled
		s.add(compiled.Reads().Fields, compiled.Reads().Client)
	}
	condition := func(field, source string, to **aggregation.Condition) {
		if source == "" {
			return
		}
		compiled, issues := env.Condition(source)
		if failed(field, source, issues) {
			return
		}
		*to = compiled
		s.add(compiled.Reads(), compiled.ReadsClient())
	}
	text("scouts.by", p.Scouts.By, &s.by)
	condition("canaries.match", p.Canaries.Match, &s.match)
	text("canaries.spread", p.Canaries.Spread, &s.spread)
	condition("canaries.never", p.Canaries.Never, &s.never)
	if len(mistakes) > 0 {
		return nil, mistakes
	}
	return s, nil
}

func (s *Selector) add(fields aggregation.Fields, ofClient bool) {
	s.reads, s.readsOfClient = s.reads.And(fields), s.readsOfClient || ofClient
}

// Reads returns what the traits depend on.
func (s *Selector) Reads() aggregation.Reads {
	return aggregation.Reads{Fields: s.reads, Client: s.readsOfClient}
}

// Of returns the traits of a client. It neither changes nor keeps node. If an expression fails, as for a
// client without the metadata that it reads, the error says which, and the traits are those that keep
// the client away from candidates: canaries.match does not match, canaries.never does, and a text is empty.
func (s *Selector) Of(node *corev3.Node, peer aggregation.Peer) (Traits, error) {
	t := Traits{Match: true}
	var errs []error
	failed := func(field string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", field, err))
		}
		return err != nil
	}
	var err error
	if s.match != nil {
		if t.Match, err = s.match.Matches(node, peer); failed("canaries.match", err) {
			t.Match = false
		}
	}
	if s.never != nil {
		if t.Never, err = s.never.Matches(node, peer); failed("canaries.never", err) {
			t.Never = true
		}
	}
	text := func(field string, of *aggregation.Text) string {
		if of == nil {
			return ""
		}
		value, err := of.Of(node, peer)
		if failed(field, err) {
			return ""
		}
		return bounded(value)
	}
	t.Group, t.Version = text("canaries.spread", s.spread), text("scouts.by", s.by)
	return t, errors.Join(errs...)
}

// bounded copies at most [maxTraitSize] bytes of a text, in whole characters.
func bounded(text string) string {
	if len(text) > maxTraitSize {
		text = strings.ToValidUTF8(text[:maxTraitSize], "")
	}
	return strings.Clone(text)
}
