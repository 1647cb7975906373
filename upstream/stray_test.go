package upstream

import (
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestStraysComeAgain: a resource that crosses the end of its demand is ignored,
// and a server that sends only differences takes it for held from then on. So it
// may with what was dropped, if a change crosses that. Both are dropped before
// they are wanted again, by name or with the wildcard (C9, C10).
func TestStraysComeAgain(t *testing.T) {
	// drop ends the demand for cluster a, and has cluster b cross that.
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

// TestManyStrays: a node does not remember any number of strays: they are dropped
// at once when there are too many.
func TestManyStrays(t *testing.T) {
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

// TestManyDropped: nor what was dropped.
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
		for len(twice) <= 1024 { // they need not end at the same moment
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
