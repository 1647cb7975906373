package upstream

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/upstream/conversation"
)

// crossing returns a SotW stream on which endpoints b were unsubscribed and subscribed again while
// the response with nonce n was in transit; a is subscribed all the time. The control plane still
// assumes [a b].
func crossing(t *testing.T) (st *xdstest.OriginStream, c *client, n string) {
	o := memory.NewOrigin(t)
	r := newRigOf(t, must(NewControlPlane(fast(false, o.Addr()))), -1)
	r.join("k").want(eds, "a")
	st = o.NextStream(t)
	expect(t, st, eds, "[a] node")
	c = r.join("k").want(eds, "b")
	expect(t, st, eds, "[a b]")
	n = st.Respond(t, eds, "1", endpoints("a", 1), endpoints("b", 1))
	expect(t, st, eds, "[a b] version=1 nonce="+n)
	c.waitState(eds, "b")
	c.drop(eds, "b")
	expect(t, st, eds, "[a] version=1 nonce="+n)
	c.want(eds, "b")
	expect(t, st, eds, "[a b] version=1 nonce="+n)
	return st, c, n
}

// TestDroppedNameCrossesAResponse: a server ignores a SotW request that drops a name where it
// crosses a response (B8), and counts the name as subscribed from then on. If a client wants the
// name again, the answer to the response omits it first (C9), until the resource arrives or for
// three answers.
func TestDroppedNameCrossesAResponse(t *testing.T) {
	again := func(t *testing.T, st *xdstest.OriginStream, version, n string) {
		t.Helper()
		expect(t, st, eds, "[a] version="+version+" nonce="+n)
		expect(t, st, eds, "[a b] version="+version+" nonce="+n)
	}
	t.Run("it comes", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			st, c, _ := crossing(t)
			again(t, st, "2", st.Respond(t, eds, "2", endpoints("a", 2)))
			n := st.Respond(t, eds, "2", endpoints("b", 1))
			expect(t, st, eds, "[a b] version=2 nonce="+n)
			c.waitState(eds, "b")
			st.Quiet(t, quiet)
		})
	})
	t.Run("it came with the response", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			st, c, _ := crossing(t)
			n := st.Respond(t, eds, "2", endpoints("a", 2), endpoints("b", 2))
			expect(t, st, eds, "[a b] version=2 nonce="+n)
			c.waitState(eds, "b")
			st.Quiet(t, quiet)
		})
	})
	t.Run("it does not exist", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			st, _, _ := crossing(t)
			for _, version := range []string{"2", "3", "4"} {
				again(t, st, version, st.Respond(t, eds, version, endpoints("a", len(version))))
			}
			n := st.Respond(t, eds, "5", endpoints("a", 5))
			expect(t, st, eds, "[a b] version=5 nonce="+n)
			st.Quiet(t, quiet)
		})
	})
	t.Run("a rejected response", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			st, _, _ := crossing(t)
			n := st.Respond(t, eds, "2", xdstest.Named{Name: "a", Message: &anypb.Any{TypeUrl: eds, Value: []byte{0xff}}})
			expect(t, st, eds, "[a] version=1 nonce="+n+" error=3")
			expect(t, st, eds, "[a b] version=1 nonce="+n)
		})
	})
	t.Run("it is dropped for good", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			st, c, n := crossing(t)
			c.drop(eds, "b")
			expect(t, st, eds, "[a] version=1 nonce="+n)
			n = st.Respond(t, eds, "2", endpoints("a", 2))
			expect(t, st, eds, "[a] version=2 nonce="+n)
			st.Quiet(t, quiet)
		})
	})
	t.Run("a full state", func(t *testing.T) { // has all that the server counts as subscribed
		o := memory.NewOrigin(t)
		r := newRigOf(t, must(NewControlPlane(fast(false, o.Addr()))), -1)
		r.join("k").want(cds, "a")
		st := o.NextStream(t)
		expect(t, st, cds, "[a] node")
		c := r.join("k").want(cds, "b")
		expect(t, st, cds, "[a b]")
		n := st.Respond(t, cds, "1", cluster("a", 1))
		expect(t, st, cds, "[a b] version=1 nonce="+n)
		c.drop(cds, "b")
		expect(t, st, cds, "[a] version=1 nonce="+n)
		c.want(cds, "b")
		expect(t, st, cds, "[a b] version=1 nonce="+n)
		n = st.Respond(t, cds, "2", cluster("a", 2))
		expect(t, st, cds, "[a b] version=2 nonce="+n)
		st.Quiet(t, quiet)
	})
	t.Run("a wildcard brought it", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			o := memory.NewOrigin(t)
			r := newRigOf(t, must(NewControlPlane(fast(false, o.Addr()))), -1)
			r.join("k").want(cds, "x") // keeps the stream
			st := o.NextStream(t)
			expect(t, st, cds, "[x] node")
			c := r.join("k").want(eds, "*")
			expect(t, st, eds, "[*]")
			n := st.Respond(t, eds, "1", endpoints("a", 1), endpoints("b", 1))
			expect(t, st, eds, "[*] version=1 nonce="+n)
			c.waitState(eds, "a b")
			c.drop(eds, "*")
			expect(t, st, eds, "[] version=1 nonce="+n)
			c.want(eds, "b")
			expect(t, st, eds, "[b] version=1 nonce="+n)
			n = st.Respond(t, eds, "2", endpoints("a", 2))
			expect(t, st, eds, "[] version=2 nonce="+n)
			expect(t, st, eds, "[b] version=2 nonce="+n)
		})
	})
}

// TestManyAnswersOfALostName: a control plane that responds to each request, and never with the
// name, does not cause a loop (C9).
func TestManyAnswersOfALostName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		st, _, _ := crossing(t)
		salt := 2
		for answer := st.Respond(t, eds, "2", endpoints("a", salt)); ; {
			r := st.NextRequestOf(t, eds)
			if salt > 20 {
				t.Fatalf("%s: still asked, after %d responses", saw(r), salt)
			}
			if r.Nonce != answer {
				continue // stale
			}
			if len(r.Names) == 2 {
				break
			}
			salt++
			answer = st.Respond(t, eds, "2", endpoints("a", salt))
		}
		st.Quiet(t, quiet)
	})
}

// TestComebackOfAWildcard: C9: a name that was covered by a wildcard, and is subscribed by name
// before the end of the wildcard was sent, is requested after that. A wildcard that is subscribed
// again is requested on a new stream. So is a name after a wildcard in legacy form, which an empty
// list cannot end (C7).
func TestComebackOfAWildcard(t *testing.T) {
	for name, test := range map[string]struct {
		scope   conversation.Scope
		names   []string
		d       cache.Demand
		sent    string
		renewed bool
	}{
		"by name":                {conversation.Wildcard, []string{"*"}, cache.Demand{Names: []string{"b"}, Subscribe: []string{"b"}, Again: []string{"b"}}, " b", false},
		"by name beside another": {conversation.Wildcard, []string{"*", "a"}, cache.Demand{Names: []string{"a", "b"}, Subscribe: []string{"b"}, Again: []string{"b"}}, "a a+b", false},
		"by name, the old form":  {conversation.Implicit, nil, cache.Demand{Names: []string{"b"}, Subscribe: []string{"b"}, Again: []string{"b"}}, "", true},
		"as such":                {conversation.Wildcard, []string{"*"}, cache.Demand{Wildcard: true, WildcardChanged: true}, "", true},
		"as such, the old form":  {conversation.Implicit, nil, cache.Demand{Wildcard: true, WildcardChanged: true}, "", true},
		"a name beside it":       {conversation.Wildcard, []string{"*"}, cache.Demand{Wildcard: true, Names: []string{"b"}, Subscribe: []string{"b"}}, "*+b", false},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := bare(t, false, "nowhere")
			s, stream := r.bareSession(t, 0)
			var cause error
			s.cancel = func(err error) { cause = err }
			s.types[cds] = &asked{Conversation: conversation.Conversation{
				State: conversation.State{Scope: test.scope, Reply: conversation.Acked}, Type: resource.TypeOf(cds), Names: test.names, Nonce: "n",
			}}
			test.d.Table = c.table(cds)
			r.ask(s, []cache.Demand{test.d}, false)
			if got := stream.sent(); got != test.sent {
				t.Errorf("asked for %q, expected %q", got, test.sent)
			}
			if got := errors.Is(cause, errRenewed); got != test.renewed {
				t.Errorf("stream ended by %v, expected a new one: %v", cause, test.renewed)
			}
		})
	}
}

// TestLostDropOfARealServer: the same with a go-control-plane server, behind a network that delays
// its response (B8, C9), and without a new stream.
func TestLostDropOfARealServer(t *testing.T) {
	for name, linear := range map[string]bool{"snapshot": false, "linear": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var cp *xdstest.ControlPlane
				var set func(salt int)
				if linear {
					cp = memory.NewLinearControlPlane(t)
					cp.SetLinear(t, endpoints("b", 1))
					set = func(salt int) { cp.SetLinear(t, endpoints("a", salt)) }
				} else {
					cp = memory.NewLenientControlPlane(t, nil)
					set = func(salt int) { cp.SetSnapshot(t, "k", fmt.Sprint(salt), endpoints("a", salt), endpoints("b", 1)) }
				}
				set(1)
				network := memory.NewNetwork(t, cp.Addr())
				r := newRigOf(t, must(NewControlPlane(fast(false, network.Addr()))), -1)
				r.join("k").want(eds, "a").waitState(eds, "a")
				c := r.join("k").want(eds, "b")
				c.waitState(eds, "b")

				counted := func(what string, count func(xdstest.Counts) int, do func()) {
					t.Helper()
					before := count(cp.Counts())
					do()
					xdstest.Eventually(t, what, func() bool { return count(cp.Counts()) > before })
				}
				requests := func(n xdstest.Counts) int { return n.Requests }
				responses := func(n xdstest.Counts) int { return n.Responses }
				xdstest.Eventually(t, "an answer to each response", func() bool {
					n := cp.Counts()
					return requests(n) > responses(n)
				})
				network.Stall(xdstest.ToClient)
				counted("a response", responses, func() { set(2) })
				counted("the name to be dropped", requests, func() { c.drop(eds, "b") })
				counted("the name to be asked for again", requests, func() { c.want(eds, "b") })
				network.Stall(0)
				c.waitState(eds, "b")
				if n := cp.Counts().Streams; n != 1 {
					t.Fatalf("%d streams", n)
				}
			})
		})
	}
}
