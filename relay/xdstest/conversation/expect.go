package conversation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdstest"
)

// expectation is what a client is to get: one frame, told as news.
type expectation struct {
	typeURL string
	next    bool // it is the stream's next frame, whatever the type
	empty   bool // the frame holds nothing at all
	exactly bool // the frame holds these and no others, also where SotW repeats what is known
	items   []item
	removed []string
	errors  []resourceError
	version *comparison
	nonce   string
	control string // control_plane.identifier

	nacks *string // answer with a NACK and this reason
	waits bool    // do not answer
}

// comparison is "version V" or "version not V".
type comparison struct {
	value string
	not   bool
}

// resourceError is NAME=CODE of a resource_errors entry.
type resourceError struct {
	name string
	code codes.Code
}

var expectationKeywords = []string{"removed", "errors", "version", "nonce", "control-plane", "and"}

// parseExpectation reads what follows the type.
func parseExpectation(a *args, known *contents) (*expectation, error) {
	e := &expectation{}
	var err error
	if e.typeURL, err = a.typeURL(); err != nil {
		return nil, err
	}
	e.empty = a.skip("nothing")
	e.exactly = a.skip("exactly")
	words := a.until(expectationKeywords)
	if e.empty && len(words) > 0 {
		return nil, fmt.Errorf("nothing, and yet %s", words[0])
	}
	if e.items, err = parseItems(e.typeURL, words, false, known); err != nil {
		return nil, err
	}
	for err == nil && !a.empty() {
		err = e.clause(a)
	}
	if err == nil && !e.empty && !e.exactly && len(e.items)+len(e.removed)+len(e.errors) == 0 {
		err = fmt.Errorf("what does it get? (an empty frame is nothing)")
	}
	for _, it := range e.items {
		key := contentKey{e.typeURL, it.name, it.content.tag}
		if err == nil && it.content.tag != "" && known.bodies[key] == nil {
			err = fmt.Errorf("no origin says %s=%s further up", it.name, it.content.tag)
		}
	}
	return e, err
}

func (e *expectation) clause(a *args) (err error) {
	switch {
	case a.skip("removed"):
		e.removed, err = a.names(expectationKeywords...)
		if err == nil && len(e.removed) == 0 {
			err = fmt.Errorf("what is removed?")
		}
	case a.skip("errors"):
		e.errors, err = parseErrors(a.until(expectationKeywords))
	case a.skip("version"):
		e.version = &comparison{not: a.skip("not")}
		e.version.value, err = a.text("a version")
	case a.skip("nonce"):
		e.nonce, err = a.text("a nonce")
	case a.skip("control-plane"):
		e.control, err = a.text("an identifier")
	case a.skip("and"):
		switch {
		case a.skip("waits"):
			e.waits = true
		case a.skip("nacks"):
			reason := "rejected by the script"
			if !a.empty() {
				reason, err = a.text("a reason")
			}
			e.nacks = &reason
		default:
			return fmt.Errorf("after `and` comes waits or nacks")
		}
		if err == nil {
			err = a.done()
		}
	default:
		err = a.done()
	}
	return err
}

func parseErrors(words []word) ([]resourceError, error) {
	var out []resourceError
	for _, w := range words {
		name, text, ok := w.split()
		code, err := statusCode(word{text: text})
		if !ok || err != nil {
			return nil, fmt.Errorf("%s is not NAME=CODE: %w", w, err)
		}
		out = append(out, resourceError{name, code})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("which errors?")
	}
	return out, nil
}

func isNothing(err error) bool { return errors.Is(err, xdstest.ErrNothing) }

// silent reports whether a SotW client hears nothing of what e says: removals
// of types that are not sent as full state (B32, D4).
func (e *expectation) silent(delta bool) bool {
	return !delta && !xdstest.FullState(e.typeURL) && len(e.items)+len(e.errors) == 0 && len(e.removed) > 0
}

// gets waits for what is expected, checks it and answers.
func (c *client) gets(e *expectation) error {
	s, t, err := c.speaking(e.typeURL)
	if err != nil {
		return err
	}
	if e.silent(s.delta) {
		for _, n := range e.removed {
			delete(t.held, n)
			delete(t.shown, n)
		}
		return c.silence(quiet, e.typeURL, true)
	}
	f, err := s.Next(c.r.patience, func(f *xdstest.Frame) bool { return e.next || f.TypeURL == e.typeURL })
	if isNothing(err) {
		return fmt.Errorf("%s got nothing within %v", c.name, c.r.patience)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	if f.TypeURL != e.typeURL {
		return fmt.Errorf("%s got %s first", c.name, c.r.describe(f))
	}
	if err := c.take(s, t, f); err != nil {
		return err
	}
	if err := c.compare(e, s.delta, t, f); err != nil {
		return fmt.Errorf("%s got %s: %w", c.name, c.r.describe(f), err)
	}
	c.apply(s, t, f)
	for _, n := range e.removed { // SotW may have no way to say so
		delete(t.shown, n)
	}
	switch {
	case e.nacks != nil:
		return c.answer(e.typeURL, rejection(*e.nacks), nil, nil)
	case e.waits, c.holdAcks:
		return nil
	default:
		return c.answer(e.typeURL, nil, nil, nil)
	}
}

// compare checks a frame against what is expected.
func (c *client) compare(e *expectation, delta bool, t *topic, f *xdstest.Frame) error {
	var problems []string
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if e.empty && len(f.Resources)+len(f.Removed)+len(f.Errors) > 0 {
		complain("want an empty frame")
	}
	wanted := make(map[string]bool)
	for _, it := range e.items {
		wanted[it.name] = true
		got, ok := f.Get(it.name)
		if !ok {
			complain("%s is missing", it.name)
			continue
		}
		if tag := c.r.contents.tagOf(got.Body); it.content.tag != "" && tag != it.content.tag {
			complain("%s is %q, want %q", it.name, tag, it.content.tag)
		}
		want, err := c.r.value(it.version)
		if err != nil {
			complain("%v", err)
		}
		it.version = want
		if p := it.envelopeProblem(got, delta); p != "" {
			complain("%s %s", it.name, p)
		}
	}
	for _, p := range c.others(e, delta, t, f, wanted) {
		complain("%s", p)
	}
	if delta {
		if got, want := slices.Sorted(slices.Values(f.Removed)), slices.Sorted(slices.Values(e.removed)); !slices.Equal(got, want) {
			complain("removed are %q, want %q", got, want)
		}
	}
	if p := e.errorProblem(f); p != "" {
		complain("%s", p)
	}
	if p := c.r.labelProblem(e, f); p != "" {
		complain("%s", p)
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// others looks at what a frame holds beside the news. Delta holds nothing else;
// a full-state SotW frame holds all that the client has, and other SotW frames
// may hold some of it (B27, B28).
func (c *client) others(e *expectation, delta bool, t *topic, f *xdstest.Frame, wanted map[string]bool) (problems []string) {
	rest := make(map[string]holding)
	if !delta && !e.exactly && !e.empty {
		maps.Copy(rest, t.shown)
	}
	for _, n := range e.removed {
		delete(rest, n)
	}
	for _, got := range f.Resources {
		if wanted[got.Name] {
			continue
		}
		have, ok := rest[got.Name]
		switch tag := c.r.contents.tagOf(got.Body); {
		case !ok:
			problems = append(problems, got.Name+" was not expected")
		case tag != have.tag:
			problems = append(problems, fmt.Sprintf("%s is %q, but was %q and has not been told to change", got.Name, tag, have.tag))
		}
	}
	if xdstest.FullState(e.typeURL) {
		for _, n := range slices.Sorted(maps.Keys(rest)) {
			if _, ok := f.Get(n); !ok && !wanted[n] {
				problems = append(problems, n+", which the client has, is missing from the full state")
			}
		}
	}
	return problems
}

func (e *expectation) errorProblem(f *xdstest.Frame) string {
	render := func(name string, code int32) string { return name + "=" + codeName(code) }
	var got, want []string
	for _, g := range f.Errors {
		got = append(got, render(g.GetResourceName().GetName(), g.GetErrorDetail().GetCode()))
	}
	for _, w := range e.errors {
		want = append(want, render(w.name, int32(w.code)))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Sprintf("errors are %q, want %q", got, want)
	}
	return ""
}

// labelProblem checks version, nonce and identifier, where they were named.
func (r *run) labelProblem(e *expectation, f *xdstest.Frame) string {
	if e.version != nil {
		want, err := r.value(e.version.value)
		if err != nil {
			return err.Error()
		}
		if (f.Version == want) == e.version.not {
			return fmt.Sprintf("the version is %q, want: version %s%q", f.Version, map[bool]string{true: "not "}[e.version.not], want)
		}
	}
	for _, l := range []struct{ what, got, want string }{
		{"nonce", f.Nonce, e.nonce}, {"control plane", controlPlane(f), e.control},
	} {
		want, err := r.value(l.want)
		switch {
		case err != nil:
			return err.Error()
		case want != "" && l.got != want:
			return fmt.Sprintf("the %s is %q, want %q", l.what, l.got, want)
		}
	}
	return ""
}
