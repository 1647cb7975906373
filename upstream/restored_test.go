package upstream

import (
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// keptOf is the last known good state of a wildcard set from a server.
func keptOf(typeURL, server string, names ...string) cache.Snapshot {
	k := cache.Snapshot{Type: resource.TypeOf(typeURL), Wildcard: true, Streams: []cache.SnapshotStream{{Server: server}}}
	for _, n := range names {
		r := resource.New(resource.Resource{Name: n, Version: "old", Body: []byte("kept " + n)})
		k.Resources = append(k.Resources, cache.SnapshotResource{Resource: r, Streams: 1})
	}
	return k
}

// TestRestored: restored resources are listed without versions to the server that they are from.
// Resources that the server does not mention are removed, also if it ignores the list, or is
// another server. The same holds for types that are requested only when the stream is up (C8, K14).
func TestRestored(t *testing.T) {
	for name, same := range map[string]bool{"same server": true, "another server": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := memory.NewOrigin(t)
				c := newRig(t, fast(true, o.Addr())).join("k")
				server := either(same, o.Addr(), "elsewhere:1")
				lds := xdstest.ListenerType
				c.group.RestoreFrom(keptOf(cds, server, "a", "gone"))
				c.group.RestoreFrom(keptOf(lds, server, "l", "lost"))
				c.want(cds, "*")
				st := o.NextStream(t)
				r := expect(t, st, cds, either(same, "[] held=[a gone] node", "[] node"))
				if same && r.Initial["a"] != "unknown" {
					t.Errorf("claims the versions %v", r.Initial)
				}
				if got := c.state(cds); got != "a gone" {
					t.Errorf("before the answer there is %q", got)
				}
				st.Respond(t, cds, "1", cluster("a", 1))
				c.waitState(cds, "a")

				c.want(lds, "*")
				r = st.NextRequestOf(t, lds)
				if got := saw(r); got != either(same, "[] held=[l lost]", "[]") {
					t.Errorf("asks %s", got)
				}
				if same && r.Initial["l"] != "unknown" {
					t.Errorf("claims the versions %v", r.Initial)
				}
				st.Respond(t, lds, "1", xdstest.APIListener("l", "r"))
				c.waitState(lds, "l")
			})
		})
	}
}

// TestRenewedWhileOpen: after the process slept, the newer content of other nodes may replace what a
// control plane has sent on a stream that is still open. The stream begins again: a control plane
// that has gone back to what it sent would have nothing to send on the old one (C8, K12).
func TestRenewedWhileOpen(t *testing.T) {
	for name, delta := range map[string]bool{"delta": true, "SotW": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := memory.NewOrigin(t)
				r := newRig(t, fast(delta, o.Addr()))
				c := r.join("k")
				c.want(cds, "*")
				st := o.NextStream(t)
				st.NextRequestOf(t, cds)
				st.Respond(t, cds, "1", cluster("a", 1))
				c.waitState(cds, "a")
				began := time.Now()
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				r.cache.Slept(began)
				newer := keptOf(cds, o.Addr(), "a", "b")
				newer.AsOf = time.Now()
				if !c.group.Renew([]cache.Snapshot{newer}) {
					t.Fatal("nothing is newer")
				}
				c.waitState(cds, "a b")
				st = o.NextStream(t)
				if asked := st.NextRequestOf(t, cds); asked.Initial["a"] == "1" || asked.Version != "" {
					t.Errorf("claims the version %q and the versions %v, although the content is from another node", asked.Version, asked.Initial)
				}
				st.Respond(t, cds, "1", cluster("a", 1))
				c.waitState(cds, "a")
			})
		})
	}
}

// TestSleptWithMessagesOnTheWay: after the process slept, a stream to the control plane begins again
// without the versions of a SotW server, and a response that arrives on the old one is not applied:
// clients may have newer content from other nodes (K12).
func TestSleptWithMessagesOnTheWay(t *testing.T) {
	for name, delta := range map[string]bool{"delta": true, "SotW": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := memory.NewOrigin(t)
				r := newRig(t, fast(delta, o.Addr()))
				c := r.join("k")
				c.want(cds, "*")
				st := o.NextStream(t)
				st.NextRequestOf(t, cds)
				st.Respond(t, cds, "1", cluster("a", 1))
				c.waitState(cds, "a")
				began := time.Now()
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				st.Respond(t, cds, "2", cluster("a", 1), cluster("b", 1))
				r.cache.Slept(began) // the response is on the way
				st = o.NextStream(t)
				asked := st.NextRequestOf(t, cds)
				if got := c.state(cds); got != "a" {
					t.Errorf("the clients see %q before the new stream has an answer", got)
				}
				if asked.Version != "" {
					t.Errorf("claims the version %q", asked.Version)
				}
				st.Respond(t, cds, "3", cluster("a", 1), cluster("c", 1))
				c.waitState(cds, "a c")
			})
		})
	}
}
