package upstream

import (
	"testing"

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
