package upstream

import (
	"path/filepath"
	"slices"
	"testing"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// urn is a structured name.
func urn(typeURL, id string, params ...string) string {
	return xdstest.URN("o", typeURL, id, params...)
}

// TestNamesAsClientsSpellThem: G1: the relay subscribes to a name in the spelling of the first
// client and unsubscribes in the same spelling. A resource that arrives in another spelling is that
// resource, also on the next stream (C8).
func TestNamesAsClientsSpellThem(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		ba, ab := urn(eds, "x", "b=2", "a=1"), urn(eds, "x", "a=1", "b=2")
		c := newRigOf(t, must(NewControlPlane(fast(delta, o.Addr()))), -1).join("k").want(eds, ba)
		st := o.NextStream(t)
		expect(t, st, eds, "["+ba+"] node")
		c.rig.join("k").want(eds, ab)
		st.Respond(t, eds, "1", endpoints(ab, 1))
		c.waitState(eds, ab)
		expect(t, st, eds, either(delta, "[] nonce=n1", "["+ba+"] version=1 nonce=n1"))
		st.Quiet(t, quiet) // the other spelling is no change

		st.Close(nil)
		st = o.NextStream(t)
		expect(t, st, eds, either(delta, "["+ba+"] held=["+ab+"] node", "["+ba+"] version=1 node"))
		c.want(eds, "plain")
		expect(t, st, eds, either(delta, "[plain]", "[plain "+ba+"] version=1"))
	})
}

// TestGlobsUpstream: G6, G7: the relay subscribes to globs on a delta control plane like to names,
// and unsubscribes in the same spelling; D8: on a SotW control plane it never requests them, and
// they are empty at once.
func TestGlobsUpstream(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		glob := urn(eds, "g/%2A")
		c := newRigOf(t, must(NewControlPlane(fast(delta, o.Addr()))), -1).join("k").want(eds, glob)
		if !delta {
			o.NoStream(t, quiet)
			c.waitState(eds, "-"+glob)
			c.want(eds, "a")
			st := o.NextStream(t)
			expect(t, st, eds, "[a] node")
			c.want(eds, urn(eds, "h/*"))
			c.waitState(eds, "-"+glob+" -"+urn(eds, "h/*"))
			st.Quiet(t, quiet)
			return
		}
		st := o.NextStream(t)
		expect(t, st, eds, "["+glob+"] node")
		st.Respond(t, eds, "1", endpoints(urn(eds, "g/x"), 1), endpoints(urn(eds, "g/h/x"), 1)) // C10
		c.waitState(eds, urn(eds, "g/x"))
		expect(t, st, eds, "[] nonce=n1")
		st.RespondRemoved(t, eds, "2", urn(eds, "g/x"))
		c.waitState(eds, "-"+glob)
		expect(t, st, eds, "[] nonce=n2")
		c.want(eds, "a").drop(eds, urn(eds, "g/*"))
		r := st.NextRequestOf(t, eds)
		for len(r.Unsubscribe) == 0 {
			r = st.NextRequestOf(t, eds)
		}
		if !slices.Equal(r.Unsubscribe, []string{glob}) {
			t.Errorf("dropped %q, expected %q", r.Unsubscribe, glob)
		}
	})
}

// TestSilenceAboutGlobs: C12, K13: a glob without any resource is empty when the timer expires, and
// not because other answers arrived.
func TestSilenceAboutGlobs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		cfg := fast(true, o.Addr())
		cfg.AbsentAfter = 5 * quiet
		c := newRig(t, cfg).join("k").want(eds, urn(eds, "g/*"), "a")
		st := o.NextStream(t)
		st.NextRequestOf(t, eds)
		st.Respond(t, eds, "1", endpoints("a", 1))
		c.waitState(eds, "a")
		if c.table(eds).State(c.watcher(eds)).Answer == cache.Answered {
			t.Error("the glob counts as answered")
		}
		c.waitState(eds, "a -"+urn(eds, "g/*"))
	})
}

// TestDirectoryGlobs: G1, G6, G7: a directory answers globs, too, and finds a name in every
// spelling.
func TestDirectoryGlobs(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "eds.json")
	ab := urn(eds, "g/x", "a=1", "b=2")
	putResponse(t, path, xdstest.Endpoints(ab), xdstest.Endpoints(urn(eds, "g/x")), xdstest.Endpoints(urn(eds, "g/h/x")))
	b := serveDir(t, root)
	v := b.view("k", resource.EndpointURL, urn(eds, "g/*"))
	v.shows(urn(eds, "g/x"))
	v.table.Replace(v.watch, false, []string{urn(eds, "g/*"), urn(eds, "g/*", "b=2", "a=1"), urn(eds, "%67/x", "b=2", "a=1")})
	v.shows(urn(eds, "g/x"), ab)
	putResponse(t, path, xdstest.Endpoints(urn(eds, "g/y")))
	v.shows(urn(eds, "g/y"))
	putResponse(t, path, xdstest.Endpoints("plain"))
	v.shows()
	if got := v.changes().Removed; !slices.Contains(got, urn(eds, "g/*")) {
		t.Errorf("removed %q, expected the glob too", got)
	}
}
