package conversation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdstest"
)

// originAct is what an origin does in one line.
type originAct func(o *origin) error

// originVerb is a verb of origins.
type originVerb struct {
	of   string // "automatic", "scripted" or "" for both
	read func(p *parser, a *args) (originAct, error)
}

// originVerbs are all of them. It is never changed.
var originVerbs = map[string]originVerb{
	"has":           {"automatic", parseHas},
	"gives":         {"automatic", parseGives},
	"drops":         {"automatic", parseDrops},
	"says":          {"scripted", parseSays},
	"closes":        {"scripted", parseCloses},
	"sees":          {"", parseSees},
	"sees node":     {"", parseSeesNode},
	"is asked":      {"", parseAsked},
	"is acked":      {"", parseAcked},
	"is nacked":     {"", parseNacked},
	"hears nothing": {"", parseOriginHears},
	"hear nothing":  {"", parseOriginHears},
	"has streams":   {"", parseHasStreams},
	"stops":         {"", plainOrigin((*origin).stop)},
	"starts":        {"", plainOrigin((*origin).start)},
}

func (p *parser) originSentence(d originDecl, words []word) (func(*run) error, error) {
	verb, rest := verbOf(originVerbs, words)
	v, ok := originVerbs[verb]
	kind := map[bool]string{false: "automatic", true: "scripted"}[d.scripted]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s does something unknown; an origin %s", d.name, strings.Join(slices.Sorted(maps.Keys(originVerbs)), ", "))
	case v.of != "" && v.of != kind:
		return nil, fmt.Errorf("%s is %s, and only %s origins can do that: %s", d.name, kind, v.of, verb)
	}
	a := &args{rest}
	act, err := v.read(p, a)
	if err == nil {
		err = a.done()
	}
	if err != nil {
		return nil, err
	}
	return func(r *run) error { return act(r.origins[d.name]) }, nil
}

func plainOrigin(do originAct) func(*parser, *args) (originAct, error) {
	return func(*parser, *args) (originAct, error) { return do, nil }
}

func (o *origin) stop() error {
	if o.auto != nil {
		o.auto.Stop()
	} else {
		o.scripted.Stop()
	}
	return nil
}

func (o *origin) start() error {
	if o.auto != nil {
		return o.auto.Start()
	}
	return o.scripted.Start()
}

// edit is one type's part of a change of an automatic origin.
type edit struct {
	typeURL string
	items   []item
	removed []string
}

// parseEdits reads "TYPE ITEM… [removed NAME…], TYPE …".
func parseEdits(p *parser, a *args) ([]edit, error) {
	var edits []edit
	for {
		var e edit
		var err error
		if e.typeURL, err = a.typeURL(); err != nil {
			return nil, err
		}
		if e.items, err = parseItems(e.typeURL, a.until([]string{"removed", ","}), true, p.script.contents); err != nil {
			return nil, err
		}
		if a.skip("removed") {
			if e.removed, err = a.names(","); err != nil {
				return nil, err
			}
		}
		if len(e.items)+len(e.removed) == 0 {
			return nil, fmt.Errorf("which resources of %s?", typeWord(e.typeURL))
		}
		edits = append(edits, e)
		if !a.skip(",") {
			return edits, nil
		}
	}
}

func parseHas(p *parser, a *args) (originAct, error) {
	edits, err := parseEdits(p, a)
	return func(o *origin) error { return o.update("", edits) }, err
}

// parseGives reads "CLUSTER TYPE …": the same for the clients of a node cluster.
func parseGives(p *parser, a *args) (originAct, error) {
	view, err := a.text("a node cluster")
	if err != nil {
		return nil, err
	}
	edits, err := parseEdits(p, a)
	return func(o *origin) error { return o.update(view, edits) }, err
}

func parseDrops(_ *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	names, err := a.names()
	if err == nil && len(names) == 0 {
		err = errors.New("drops what?")
	}
	return func(o *origin) error { return o.update("", []edit{{typeURL: u, removed: names}}) }, err
}

// update changes what an automatic origin serves, at one stroke. It lets what was
// there before arrive first, where it does, so that scripts are not about how
// changes meet by chance.
func (o *origin) update(view string, edits []edit) error {
	o.auto.Settle(quiet)
	o.mu.Lock()
	o.views[view] = true
	o.mu.Unlock()
	o.auto.Update(view, func(c *xdstest.Change) {
		for _, e := range edits {
			for _, it := range e.items {
				c.SetEnvelope(e.typeURL, it.wrap(""))
			}
			c.Remove(e.typeURL, e.removed...)
		}
	})
	return nil
}

func parseSees(_ *parser, a *args) (originAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	nothing := a.skip("nothing")
	names, err := a.names()
	if err == nil && nothing != (len(names) == 0) {
		err = errors.New("it sees names, or nothing")
	}
	return func(o *origin) error { return o.sees(u, names) }, err
}

// parseSeesNode reads FIELD=VALUE words that the newest stream's node must have.
func parseSeesNode(_ *parser, a *args) (originAct, error) {
	checks, err := parseNodeCheck(a.until(nil))
	return func(o *origin) error {
		return o.await(o.r.patience, func() error {
			s := o.newestLocked("", "")
			if s == nil || s.node == nil {
				return fmt.Errorf("%s has no open stream that has told its node", o.name)
			}
			return checks.check(s.node)
		})
	}, err
}

func parseOriginHears(_ *parser, a *args) (originAct, error) {
	h, err := parseHears(a)
	return func(o *origin) error { return o.hearsNothing(cmp.Or(h.window, quiet), h.typeURL, 0) }, err
}

// hears is "[of TYPE] [for DURATION]".
type hears struct {
	typeURL string
	window  time.Duration
}

func parseHears(a *args) (h hears, err error) {
	if a.skip("of") {
		h.typeURL, err = a.typeURL()
	}
	if err == nil && a.skip("for") {
		h.window, err = a.duration()
	}
	return h, err
}

// parseHasStreams reads how many streams are to be open.
func parseHasStreams(_ *parser, a *args) (originAct, error) {
	text, err := a.text("a number")
	if err != nil {
		return nil, err
	}
	want, err := strconv.Atoi(text)
	return func(o *origin) error {
		return o.await(o.r.patience, func() error {
			open := 0
			for _, s := range o.streams {
				if s.open {
					open++
				}
			}
			if open != want {
				return fmt.Errorf("%s has %d open streams, want %d", o.name, open, want)
			}
			return nil
		})
	}, err
}

// parseCloses reads "[CODE ["text"]] [to NODE]": the newest stream ends.
func parseCloses(_ *parser, a *args) (originAct, error) {
	code, text, node := codes.OK, "", ""
	var err error
	if !a.empty() && !a.at("to") {
		w, _ := a.next("a code")
		code, err = statusCode(w)
	}
	if err == nil && !a.empty() && !a.at("to") {
		text, err = a.text("a text")
	}
	if err == nil && a.skip("to") {
		node, err = a.text("a node")
	}
	return func(o *origin) error {
		s, err := o.streamOf("", node)
		if err != nil {
			return err
		}
		o.mu.Lock()
		s.open = false // at once, so that the next line means the stream after it
		o.mu.Unlock()
		s.grpc.Close(status.New(code, text))
		return nil
	}, err
}
