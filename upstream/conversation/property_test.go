package conversation

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// request and answer are messages under way.
type request struct {
	Change
	first bool
	nonce string
}

type answer struct {
	nonce   string
	invalid bool
	large   bool
	gated   bool // canaries get it first
}

// server is a control plane as far as subscriptions go.
type server struct {
	wild, named bool
	names       map[string]bool
	nonce       int
}

// read applies a request. It ignores a SotW request that crosses a response (B8).
func (s *server) read(v Variant, r request) {
	if v == SotW {
		if r.nonce != "" && r.nonce != fmt.Sprint(s.nonce) {
			return
		}
		s.named = s.named || len(r.Names) > 0
		s.wild = slices.Contains(r.Names, star) || !s.named
		s.names = make(map[string]bool)
		for _, n := range plain(r.Names) {
			s.names[n] = true
		}
		return
	}
	s.wild = s.wild || r.first && len(r.Subscribe) == 0 // B19
	for _, n := range r.Subscribe {
		s.subscribe(n, true)
	}
	for _, n := range r.Unsubscribe {
		s.subscribe(n, false)
	}
}

func (s *server) subscribe(name string, on bool) {
	switch {
	case name == star:
		s.wild = on
	case on:
		s.names[name] = true
	default:
		delete(s.names, name)
	}
}

// script drives a conversation as the shell does. Requests and responses are under way for any time,
// so that they cross.
type script struct {
	*Conversation
	server
	implicit   bool
	requests   []request
	answers    []answer
	streams    int
	want, sent want
	omit       []string
}

// want is a demand.
type want struct {
	wild  bool
	names map[string]bool
	// dropped are names whose interest ended since the demand was taken, and wildDropped the same of
	// the wildcard.
	dropped     map[string]bool
	wildDropped bool
}

func (s *script) open() {
	s.streams++
	c := Conversation{Type: s.Type, Variant: s.Variant}
	*s.Conversation, s.server, s.requests, s.answers = c, server{names: make(map[string]bool)}, nil, nil
	s.ask(true)
}

// ask takes the demand, whole or what has changed.
func (s *script) ask(whole bool) {
	if s.Reply == Deferred {
		return // the demand is taken later
	}
	d := cache.Demand{Wildcard: s.want.wild, WildcardChanged: s.want.wild != s.sent.wild || s.want.wild && s.want.wildDropped}
	d.Names = slices.Sorted(maps.Keys(s.want.names))
	for _, n := range d.Names {
		dropped := s.want.dropped[n]
		if whole || dropped || !s.sent.names[n] {
			d.Subscribe = append(d.Subscribe, n)
		}
		if dropped && !whole {
			d.Again = append(d.Again, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(s.sent.names)) {
		if !s.want.names[n] && !whole {
			d.Unsubscribe = append(d.Unsubscribe, n)
		}
	}
	s.sent = want{wild: s.want.wild, names: maps.Clone(s.want.names)}
	s.want.dropped, s.want.wildDropped = make(map[string]bool), false
	s.flush()
	var next Decision
	if s.Variant == SotW {
		next = s.AskSotW(&d, d.Again, s.implicit, whole)
	} else {
		next = s.AskDelta(&d, s.implicit, whole)
	}
	switch next.Act {
	case Nothing:
	case OpenNewStream:
		s.open()
	case DropAndSend:
		s.send(next.Drop, false)
		s.send(next.Change, false)
	case Send:
		s.send(next.Change, next.First)
	}
}

func (s *script) send(c Change, first bool) {
	nonce := s.Nonce
	if s.Variant == Delta {
		nonce = ""
	}
	s.requests = append(s.requests, request{c, first, nonce})
}

// flush sends a reply that is owed. One that waits for canaries is an ACK.
func (s *script) flush() {
	if s.Reply == Deferred {
		s.Pass()
	}
	if !s.OwesReply() {
		return
	}
	s.send(Change{Names: s.Replied(s.omit)}, false)
	if len(s.omit) > 0 {
		s.send(Change{Names: s.Names}, false)
	}
}

// receive takes the oldest response.
func (s *script) receive() {
	a := s.answers[0]
	s.answers = s.answers[1:]
	s.flush()
	if a.large && s.Variant == Delta {
		s.LargeFrame()
	}
	rsp := &resource.Response{Type: s.Type, Nonce: a.nonce, Version: a.nonce}
	s.omit = s.Omit(rsp)
	switch {
	case a.invalid:
		s.Reject(rsp)
	case a.gated:
		s.Defer(rsp, time.Time{})
	default:
		s.Accept(rsp, 1, time.Time{})
	}
}

// fail makes canaries reject the newest response. That is a NACK or a report, once.
func (s *script) fail(t *rapid.T) {
	was := s.Reply
	if s.Fail() {
		s.send(Change{Names: s.Names}, false)
	}
	s.flush()
	if s.Fail() || s.Reply != Reported && s.Reply != Nacked && s.Reply != None {
		t.Fatalf("%v after a failure in %v", s.Reply, was)
	}
}

// read lets the server read the oldest request.
func (s *script) read() {
	r := s.requests[0]
	s.requests = s.requests[1:]
	s.server.read(s.Variant, r)
}

// settle lets all messages arrive.
func (s *script) settle() {
	for len(s.requests)+len(s.answers) > 0 || s.OwesReply() || s.Reply == Deferred {
		s.flush()
		if len(s.requests) > 0 {
			s.read()
			continue
		}
		if len(s.answers) > 0 {
			s.receive()
		}
	}
}

// TestRandomEvents holds B8, B20, B23, C3, C7 and C9 over random sequences of demands, responses and
// messages that cross, and of what canaries answer (K2): once all have arrived, the server counts exactly those names and the wildcard
// as subscribed that clients want, whichever requests it had to ignore.
func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &script{Conversation: &Conversation{}, implicit: rapid.Bool().Draw(t, "implicit")}
		s.Variant = Variant(rapid.IntRange(0, 1).Draw(t, "variant"))
		s.Type = &resource.Type{URL: "type.googleapis.com/test.A", Wildcard: rapid.Bool().Draw(t, "wildcard type")}
		s.want.names, s.want.dropped = make(map[string]bool), make(map[string]bool)
		s.sent.names = make(map[string]bool)
		s.open()
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			switch rapid.IntRange(0, 10).Draw(t, "what") {
			case 0, 1:
				s.want.names[name] = true
			case 2:
				if s.want.names[name] {
					delete(s.want.names, name)
					s.want.dropped[name] = s.sent.names[name]
				}
			case 3:
				s.want.wildDropped = s.want.wildDropped || s.want.wild
				s.want.wild = !s.want.wild
			case 4, 5:
				whole := rapid.IntRange(0, 5).Draw(t, "whole") == 0
				if whole && s.Variant == Delta {
					s.ask(false) // a whole demand does not say what has to be unsubscribed
				}
				s.ask(whole)
			case 6:
				if len(s.requests) > 0 {
					s.read()
				}
			case 7:
				if s.wild || len(s.names) > 0 {
					s.nonce++
					s.answers = append(s.answers, answer{fmt.Sprint(s.nonce), rapid.Bool().Draw(t, "invalid"), rapid.Bool().Draw(t, "large"), rapid.Bool().Draw(t, "gated")})
				}
			case 8:
				if len(s.answers) > 0 {
					s.receive()
				}
			case 9:
				if s.Frames == Partial {
					s.FramesEnd()
				} else {
					s.flush()
				}
			case 10:
				if !s.OwesReply() {
					s.fail(t)
				}
			}
		}
		s.flush()
		s.ask(false)
		s.settle()
		if s.Scope == New {
			if s.want.wild || len(s.want.names) > 0 {
				t.Fatal("nothing was requested")
			}
			return
		}
		if s.wild != s.want.wild || !maps.Equal(s.names, s.want.names) {
			t.Fatalf("%v %v: the server sends the wildcard %v and %v, expected %v and %v",
				s.Variant, s.State, s.wild, s.names, s.want.wild, s.want.names)
		}
	})
}
