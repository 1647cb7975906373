package conversation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"xdsrelay/relay/xdstest"
)

// asked is what the next request of a type must say; nil and "" are not looked
// at.
type asked struct {
	names       []string // SotW names, or delta subscribe
	unsubscribe []string
	initial     map[string]string
	only        string // "sotw" or "delta": the fields are of that variant

	version, nonce *string
	node           *bool
}

var askKeywords = []string{"names", "subscribe", "unsubscribe", "initial", "version", "nonce", "with", "without"}

// parseAsked reads "TYPE CLAUSE…".
func parseAsked(_ *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	want := &asked{}
	if !a.empty() && !slices.ContainsFunc(askKeywords, a.at) {
		want.names, err = a.names(askKeywords...)
	}
	for err == nil && !a.empty() {
		err = want.clause(a)
	}
	return func(o *origin) error {
		h, err := o.take(u, "a request", func(h *heard) bool { return !h.plain })
		if err != nil {
			return err
		}
		if p := want.problem(o.r, h.request); p != "" {
			return fmt.Errorf("%s was asked %s: %s", o.name, h.request, p)
		}
		return nil
	}, err
}

func (w *asked) clause(a *args) (err error) {
	text := func(what string) *string {
		var t string
		t, err = a.text(what)
		return &t
	}
	list := func() []string {
		var names []string
		names, err = a.names(askKeywords...)
		return append([]string{}, names...) // not nil: it may have to be empty
	}
	switch {
	case a.skip("names"):
		w.only, w.names = "sotw", list()
	case a.skip("subscribe"):
		w.only, w.names = "delta", list()
	case a.skip("unsubscribe"):
		w.only, w.unsubscribe = "delta", list()
	case a.skip("initial"):
		w.only = "delta"
		w.initial, err = versions(a.until(askKeywords))
	case a.skip("version"):
		w.only, w.version = "sotw", text("a version")
	case a.skip("nonce"):
		w.nonce = text("a nonce")
	case a.at("with"), a.at("without"):
		has := a.skip("with")
		if !has {
			a.skip("without")
		}
		w.node = &has
		if !a.skip("node") {
			err = errors.New("with or without what? A request comes with or without node")
		}
	default:
		err = a.done()
	}
	return err
}

// problem says how a request differs; "" if it does not.
func (w *asked) problem(r *run, got *xdstest.Request) string {
	if w.only == "sotw" && got.Delta || w.only == "delta" && !got.Delta {
		return "that is no " + w.only + " request"
	}
	names := got.Names
	if got.Delta {
		names = got.Subscribe
	}
	var problems []string
	compareSets := func(what string, got, want []string) {
		if want != nil && !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			problems = append(problems, fmt.Sprintf("%s are %q, want %q", what, got, want))
		}
	}
	compareSets("the names", names, w.names)
	compareSets("the names unsubscribed from", got.Unsubscribe, w.unsubscribe)
	if w.initial != nil {
		for n, v := range w.initial {
			if value, err := r.value(v); err != nil || got.Initial[n] != value {
				problems = append(problems, fmt.Sprintf("the initial version of %s is %q, want %q", n, got.Initial[n], v))
			}
		}
		if len(got.Initial) != len(w.initial) {
			problems = append(problems, fmt.Sprintf("initial versions are %v, want %v", got.Initial, w.initial))
		}
	}
	for _, l := range []struct {
		what, got string
		want      *string
	}{{"version", got.Version, w.version}, {"nonce", got.Nonce, w.nonce}} {
		if l.want != nil && l.got != *l.want {
			problems = append(problems, fmt.Sprintf("the %s is %q, want %q", l.what, l.got, *l.want))
		}
	}
	if w.node != nil && (got.Node != nil) != *w.node {
		problems = append(problems, fmt.Sprintf("it has a node: %v, want %v", got.Node != nil, *w.node))
	}
	return strings.Join(problems, "; ")
}

// parseAcked reads "TYPE [nonce N]".
func parseAcked(_ *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	nonce := ""
	if a.skip("nonce") {
		nonce, err = a.text("a nonce")
	}
	return func(o *origin) error {
		_, err := o.take(u, "an ACK", func(h *heard) bool {
			return h.request.IsAck() && (nonce == "" || h.request.Nonce == nonce)
		})
		return err
	}, err
}

// parseNacked reads "TYPE ["text"] [version V] [nonce N]".
func parseNacked(_ *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	want := &asked{}
	text := ""
	if !a.empty() && !slices.ContainsFunc(askKeywords, a.at) {
		text, err = a.text("a text")
	}
	for err == nil && !a.empty() {
		err = want.clause(a)
	}
	return func(o *origin) error {
		h, err := o.take(u, "a NACK", func(h *heard) bool { return h.request.IsNack() })
		if err != nil {
			return err
		}
		if !strings.Contains(h.request.Error.GetMessage(), text) {
			return fmt.Errorf("%s got %s, whose error does not say %q", o.name, h.request, text)
		}
		if p := want.problem(o.r, h.request); p != "" {
			return fmt.Errorf("%s got %s: %s", o.name, h.request, p)
		}
		return nil
	}, err
}
