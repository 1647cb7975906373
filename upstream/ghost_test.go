package upstream

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestGhostSubscriptionsAreResent: the relay ignores a resource that crosses the end of its demand, but a
// server that sends only differences assumes from then on that the relay has it. The same may
// happen with unsubscribed resources if a change crosses the unsubscription. Both are unsubscribed
// again before they are requested, by name or with the wildcard (C9, C10).
func TestGhostSubscriptionsAreResent(t *testing.T) {
	// drop ends the demand for cluster a while cluster b crosses that.
	for demand, drop := range map[string]func(c *client, st *xdstest.OriginStream){
		"wildcard": func(c *client, st *xdstest.OriginStream) {
			c.want(cds, "*")
			expect(t, st, cds, "[]")
			n := st.Respond(t, cds, "1", cluster("a", 1))
			expect(t, st, cds, "[] nonce="+n)
			c.drop(cds, "*")
			expect(t, st, cds, "[*] -[* a]")
		},
		"name": func(c *client, st *xdstest.OriginStream) {
			c.want(cds, "b")
			expect(t, st, cds, "[b]")
			c.drop(cds, "b")
			expect(t, st, cds, "[] -[b]")
		},
	} {
		for _, again := range []string{"*", "b"} {
			t.Run(demand+" then "+again, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					o := memory.NewOrigin(t)
					r := newRigOf(t, must(NewControlPlane(fast(true, o.Addr()))), -1)
					r.join("k").want(eds, "e") // keeps the stream
					st := o.NextStream(t)
					expect(t, st, eds, "[e] node")
					c := r.join("k")
					drop(c, st)
					n := st.Respond(t, cds, "2", cluster("b", 1))
					expect(t, st, cds, "[] nonce="+n)
					st.Quiet(t, quiet)
					asked := func() {
						t.Helper()
						c.want(cds, again)
						if again == "b" {
							expect(t, st, cds, "[] -[b]")
							expect(t, st, cds, "[b]")
							return
						}
						st.WaitClosed(t)
						st = o.NextStream(t)
						expect(t, st, cds, "[] node")
						expect(t, st, eds, "[e]")
					}
					asked()
					st.Respond(t, cds, "3", cluster("b", 1))
					c.waitState(cds, "b")
					st.NextRequest(t)
					c.drop(cds, again)
					expect(t, st, cds, either(again == "*", "[*] -[* b]", "[] -[b]"))
					asked()
				})
			})
		}
	}
}

// TestManyGhostSubscriptions: a node remembers a bounded number of ghost subscriptions: if there are too many,
// it unsubscribes from them at once.
func TestManyGhostSubscriptions(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(true, o.Addr())).join("k").want(cds, "mine")
		st := o.NextStream(t)
		expect(t, st, cds, "[mine] node")
		var all []proto.Message
		var names []string
		for i := range 3000 {
			names = append(names, fmt.Sprintf("stray-%04d", i))
			all = append(all, cluster(names[i], 1))
		}
		st.Respond(t, cds, "1", all...)
		st.NextRequest(t) // ACK
		if r := st.NextRequest(t); !slices.Equal(r.Unsubscribe, names) || len(r.Subscribe) > 0 {
			t.Fatalf("got %s, expected that all are dropped", saw(r))
		}
		c.want(cds, names[7])
		expect(t, st, cds, "["+names[7]+"]")
	})
}

// TestManyDropped: the same for unsubscribed names.
func TestManyDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		r := newRigOf(t, must(NewControlPlane(fast(true, o.Addr()))), -1)
		c := r.join("k").want(cds, "mine")
		st := o.NextStream(t)
		expect(t, st, cds, "[mine] node")
		st.Respond(t, cds, "1", cluster("mine", 1))
		st.NextRequest(t) // ACK
		var names []string
		for i := range 1100 {
			names = append(names, fmt.Sprintf("name-%04d", i))
		}
		c.want(cds, names...)
		st.NextRequest(t)
		c.drop(cds, names...)
		drops, twice := make(map[string]int), []string(nil)
		for len(twice) <= 1024 || len(drops) < len(names) { // they need not end at the same moment
			for _, n := range st.NextRequest(t).Unsubscribe {
				if drops[n]++; drops[n] == 2 {
					twice = append(twice, n)
				}
			}
		}
		st.Quiet(t, quiet)
		c.want(cds, twice[7])
		expect(t, st, cds, "["+twice[7]+"]")
	})
}
