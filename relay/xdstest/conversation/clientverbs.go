package conversation

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdstest"
)

// clientAct is what a client does in one line.
type clientAct func(c *client) error

// clientVerbs reads what follows each verb of a client. It is never changed.
var clientVerbs = map[string]func(p *parser, a *args) (clientAct, error){
	"is":                 parseIs,
	"speaks":             parseSpeaks,
	"connects to":        parseConnects,
	"subscribes":         parseSubscribes,
	"unsubscribes":       parseUnsubscribes,
	"resumes":            parseResumes,
	"sends":              parseSends,
	"gets":               func(p *parser, a *args) (clientAct, error) { return parseGets(p, a, false) },
	"next gets":          func(p *parser, a *args) (clientAct, error) { return parseGets(p, a, true) },
	"ends up with":       parseEndsUpWith,
	"acks":               func(_ *parser, a *args) (clientAct, error) { return parseAnswer(a, false) },
	"nacks":              func(_ *parser, a *args) (clientAct, error) { return parseAnswer(a, true) },
	"holds acks":         plain(func(c *client) error { c.holdAcks = true; return nil }),
	"acks by itself":     plain(func(c *client) error { c.holdAcks = false; return nil }),
	"hears nothing":      parseClientHears,
	"hear nothing":       parseClientHears,
	"takes frames up to": parseTakes,
	"remembers":          parseRemembers,
	"is closed with":     parseIsClosed,
	"calls":              parseCalls,
	"stops reading":      plain(func(c *client) error { return c.eachStream((*xdstest.Stream).StopReading) }),
	"reads again":        plain(func(c *client) error { return c.eachStream((*xdstest.Stream).StartReading) }),
	"half-closes":        plain(func(c *client) error { return c.eachStream((*xdstest.Stream).CloseSend) }),
	"leaves":             plain(func(c *client) error { c.leave(); return nil }),
	"reconnects":         parseReconnects,
}

// entrances are the verbs with which a client may enter.
var entrances = []string{"takes frames up to", "is", "speaks", "connects to", "subscribes", "resumes", "sends", "calls", "holds acks"}

func (p *parser) clientSentence(name string, words []word) (func(*run) error, error) {
	verb, rest := verbOf(clientVerbs, words)
	if verb == "" {
		return nil, fmt.Errorf("%s does something unknown; a client %s", name, strings.Join(slices.Sorted(maps.Keys(clientVerbs)), ", "))
	}
	if !p.clients[name] && !slices.Contains(entrances, verb) {
		return nil, fmt.Errorf("%s has not appeared yet", name)
	}
	p.clients[name] = true
	a := &args{rest}
	act, err := clientVerbs[verb](p, a)
	if err == nil {
		err = a.done()
	}
	if err != nil {
		return nil, err
	}
	return func(r *run) error { return act(r.client(name)) }, nil
}

func plain(do clientAct) func(*parser, *args) (clientAct, error) {
	return func(*parser, *args) (clientAct, error) { return do, nil }
}

func (c *client) eachStream(do func(*xdstest.Stream)) error {
	if len(c.streams) == 0 {
		return fmt.Errorf("%s has no stream", c.name)
	}
	for _, s := range c.streams {
		do(s.Stream)
	}
	return nil
}

func parseIs(_ *parser, a *args) (clientAct, error) {
	change, err := parseNode(a.words)
	if err == nil && len(a.words) == 0 {
		err = errors.New("what is it?")
	}
	a.words = nil
	return func(c *client) error {
		c.node = change.applied(c.node)
		return nil
	}, err
}

func parseSpeaks(_ *parser, a *args) (clientAct, error) {
	how, err := a.text("sotw-ads, delta-ads, sotw-type or delta-type")
	if err == nil && !slices.Contains(downs[:4], how) {
		err = fmt.Errorf("%q is not one of %s", how, strings.Join(downs[:4], ", "))
	}
	return func(c *client) error {
		c.down = how
		return nil
	}, err
}

func parseConnects(p *parser, a *args) (clientAct, error) {
	server, err := a.text("a server")
	if err == nil && !slices.Contains(p.script.servers, server) {
		err = fmt.Errorf("%q is not among the servers of the head", server)
	}
	return func(c *client) error {
		c.server = server
		return nil
	}, err
}

func parseSubscribes(_ *parser, a *args) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	names, err := a.names()
	return func(c *client) error { return c.change(u, names, nil) }, err
}

func parseUnsubscribes(_ *parser, a *args) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	names, err := a.names()
	if err == nil && len(names) == 0 {
		err = errors.New("unsubscribes what?")
	}
	return func(c *client) error { return c.change(u, nil, names) }, err
}

// parseResumes reads "TYPE NAME… [version V] [holding NAME=VERSION…]".
func parseResumes(_ *parser, a *args) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	names, err := a.names("version", "holding")
	var version string
	if err == nil && a.skip("version") {
		version, err = a.text("a version")
	}
	holds := make(map[string]string)
	if err == nil && a.skip("holding") {
		holds, err = versions(a.until(nil))
	}
	return func(c *client) error {
		before := &topic{names: names, held: make(map[string]holding)}
		var err error
		if before.version, err = c.r.value(version); err != nil {
			return err
		}
		for n, v := range holds {
			if v, err = c.r.value(v); err != nil {
				return err
			}
			before.held[n] = holding{tag: "?", version: v}
		}
		return c.resume(u, before, false)
	}, err
}

// versions reads NAME=VERSION words.
func versions(words []word) (map[string]string, error) {
	out := make(map[string]string)
	for _, w := range words {
		name, version, ok := w.split()
		if !ok || w.braces {
			return nil, fmt.Errorf("%s is not NAME=VERSION", w)
		}
		out[name] = version
	}
	return out, nil
}

func parseGets(p *parser, a *args, next bool) (clientAct, error) {
	e, err := parseExpectation(a, p.script.contents)
	if err != nil {
		return nil, err
	}
	e.next = next
	return func(c *client) error { return c.gets(e) }, nil
}

func parseEndsUpWith(p *parser, a *args) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	a.skip("nothing")
	items, err := parseItems(u, a.until([]string{"removed"}), false, p.script.contents)
	var removed []string
	if err == nil && a.skip("removed") {
		removed, err = a.names()
	}
	return func(c *client) error { return c.endsUpWith(u, items, removed) }, err
}

// parseAnswer reads "TYPE ["reason"] [subscribing NAME…] [unsubscribing NAME…]".
func parseAnswer(a *args, nack bool) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	reason := "rejected by the script"
	if nack && !a.empty() && !a.at("subscribing") && !a.at("unsubscribing") {
		if reason, err = a.text("a reason"); err != nil {
			return nil, err
		}
	}
	var add, drop []string
	if a.skip("subscribing") {
		add, err = a.names("unsubscribing")
	}
	if err == nil && a.skip("unsubscribing") {
		drop, err = a.names()
	}
	return func(c *client) error {
		if nack {
			return c.answer(u, rejection(reason), add, drop)
		}
		return c.answer(u, nil, add, drop)
	}, err
}

// parseClientHears reads "[of TYPE] [for DURATION]".
func parseClientHears(_ *parser, a *args) (clientAct, error) {
	h, err := parseHears(a)
	return func(c *client) error { return c.silence(cmp.Or(h.window, quiet), h.typeURL, true) }, err
}

// parseTakes reads a number of bytes, which no frame from here on may exceed.
func parseTakes(_ *parser, a *args) (clientAct, error) {
	text, err := a.text("a number of bytes")
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(text)
	return func(c *client) error {
		c.maxFrame = n
		return nil
	}, err
}

// parseRemembers reads "version|nonce of TYPE [NAME] as VARIABLE".
func parseRemembers(_ *parser, a *args) (clientAct, error) {
	what, err := a.text("version or nonce")
	if err != nil {
		return nil, err
	}
	if what != "version" && what != "nonce" || !a.skip("of") {
		return nil, errors.New("it remembers the version of, or the nonce of")
	}
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	var resource string
	if !a.at("as") {
		if resource, err = a.text("a resource or as"); err != nil {
			return nil, err
		}
	}
	if !a.skip("as") {
		return nil, errors.New("as what?")
	}
	as, err := a.text("a name")
	return func(c *client) error { return c.remembers(what, u, resource, as) }, err
}

// parseIsClosed reads "CODE ["text"]".
func parseIsClosed(_ *parser, a *args) (clientAct, error) {
	w, err := a.next("a status code")
	if err != nil {
		return nil, err
	}
	var code codes.Code
	if code, err = statusCode(w); err != nil {
		return nil, err
	}
	var text string
	if !a.empty() {
		text, err = a.text("a text")
	}
	return func(c *client) error { return c.isClosed(code, text) }, err
}

// isClosed waits for the end of the client's streams.
func (c *client) isClosed(code codes.Code, text string) error {
	if len(c.streams) == 0 {
		return fmt.Errorf("%s has no stream", c.name)
	}
	for _, s := range c.streams {
		end := s.End(c.r.patience)
		switch {
		case end == nil:
			return fmt.Errorf("the stream of %s is still open after %v", c.name, c.r.patience)
		case end.Code() != code, !strings.Contains(end.Message(), text):
			return fmt.Errorf("the stream of %s ended with %s %q", c.name, codeName(int32(end.Code())), end.Message())
		}
	}
	return nil
}

// parseCalls reads "METHOD sotw|delta".
func parseCalls(_ *parser, a *args) (clientAct, error) {
	method, err := a.text("a method like /package.Service/Method")
	if err != nil {
		return nil, err
	}
	kind, err := a.text("sotw or delta")
	if err == nil && !slices.Contains(ups, kind) {
		err = fmt.Errorf("%q is neither sotw nor delta", kind)
	}
	return func(c *client) error {
		c.down = kind + "-ads"
		c.streams[""] = newStream(c.dial().OpenMethod(method, kind == "delta"), kind == "delta")
		return nil
	}, err
}

func parseReconnects(_ *parser, a *args) (clientAct, error) {
	forgetful := a.skip("without")
	if forgetful && !a.skip("versions") {
		return nil, errors.New("without what? It can be without versions")
	}
	return func(c *client) error { return c.reconnect(forgetful) }, nil
}
