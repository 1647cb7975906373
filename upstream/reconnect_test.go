package upstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestResume: C1, C8: the first requests of a new stream have the accepted versions, all names, no
// nonce, and the node once; later messages have no versions of resources.
func TestResume(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*").want(eds, "a", "b")
		st := o.NextStream(t)
		st.NextRequestOf(t, cds)
		st.NextRequestOf(t, eds)
		st.Respond(t, cds, "7", cluster("a", 1))
		st.Respond(t, eds, "8", endpoints("a", 1))
		st.NextRequestOf(t, cds)
		st.NextRequestOf(t, eds)
		st.Close(status.New(codes.Unavailable, "restarting"))

		st = o.NextStream(t)
		nodes := 0
		for _, want := range []struct{ typeURL, delta, sotw string }{
			{cds, "[] held=[a]", "[] version=7"},
			{eds, "[a b] held=[a]", "[a b] version=8"},
		} {
			r := st.NextRequestOf(t, want.typeURL)
			if r.Node != nil {
				nodes++
				r.Node = nil
			}
			if got := saw(r); got != either(delta, want.delta, want.sotw) {
				t.Fatalf("%s: %s", want.typeURL, got)
			}
			if delta && r.Initial["a"] != either(want.typeURL == cds, "7", "8") {
				t.Fatalf("versions held: %v", r.Initial)
			}
		}
		if nodes != 1 {
			t.Fatalf("%d requests had the node", nodes)
		}
		n := st.Respond(t, cds, "9", cluster("a", 1), cluster("b", 1))
		expect(t, st, cds, either(delta, "[]", "[] version=9")+" nonce="+n)
		c.want(eds, "c")
		expect(t, st, eds, either(delta, "[c]", "[a b c] version=8"))
	})
}

// TestOutage: C14, K13, K14: an outage changes nothing, a name that is subscribed meanwhile is
// neither known nor absent, and after the outage only differences are sent.
func TestOutage(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewStateOrigin(t, nil)
		o.Set("", cluster("a", 1), cluster("b", 1), endpoints("e", 1))
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*").want(eds, "e")
		c.waitState(cds, "a b")
		c.waitState(eds, "e")
		gen := c.sees(cds).To
		o.Stop()
		c.waitUpstream(false)
		c.want(eds, "z")
		o.Remove("", cds, "b")
		o.Set("", endpoints("z", 1))
		if got := c.state(cds) + " " + c.state(eds); got != "a b e" {
			t.Fatalf("during the outage: %q", got)
		}
		if c.sees(cds).To != gen {
			t.Fatal("the outage changed the table")
		}
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
		c.waitState(cds, "a") // the removal of a name that no client has subscribed to by name
		c.waitState(eds, "e z")
		if got := c.sees(cds).To.Gen; got != gen.Gen+1 {
			t.Fatalf("generation %d after %d: more than the difference was applied", got, gen.Gen)
		}
		c.waitUpstream(true)
	})
}

// TestIdleKeyReturns: K10, C8: an idle key has no stream. When it is active again it lists its
// resources without versions, which may mean something else by now. Resources that the control
// plane does not mention are removed if they arrived with a wildcard; for the others the control
// plane reports the removal (C11).
func TestIdleKeyReturns(t *testing.T) {
	for name, wants := range map[string][]string{"wildcard": {"*"}, "names": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				o := memory.NewOrigin(t)
				r := newRigOf(t, must(NewControlPlane(fast(true, o.Addr()))), -1)
				c := r.join("k").want(cds, wants...)
				st := o.NextStream(t)
				st.NextRequest(t)
				st.Respond(t, cds, "1", cluster("a", 1), cluster("b", 1), cluster("c", 1))
				c.waitState(cds, either(name == "names", "a b", "a b c"))
				// The client disconnects: its demand and the key end at once.
				r.cache.Leave(c.group)
				st.WaitClosed(t)

				r.join("k")
				asked := either(name == "names", "[a b] held=[a b] node", "[] held=[a b c] node")
				for range 2 { // also if the stream fails before the answer
					st = o.NextStream(t)
					if r := expect(t, st, cds, asked); r.Initial["a"] != "unknown" {
						t.Fatalf("claims the versions %v", r.Initial)
					}
					st.Close(status.New(codes.Unavailable, "not yet"))
				}
				st = o.NextStream(t)
				expect(t, st, cds, asked)
				st.Respond(t, cds, "1", cluster("a", 1))
				if name == "names" {
					st.RespondRemoved(t, cds, "2", "b")
				}
				c.waitState(cds, either(name == "names", "a -b", "a"))
			})
		})
	}
}

// TestWildcardLeftBeforeASweep: C11: resources from an earlier wildcard that are subscribed by name
// since then are not removed because the control plane is silent about them.
func TestWildcardLeftBeforeASweep(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		r := newRigOf(t, must(NewControlPlane(fast(true, o.Addr()))), -1)
		c := r.join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("a", 1), cluster("b", 1))
		c.waitState(cds, "a b")
		r.cache.Leave(c.group)
		st.WaitClosed(t)

		r.join("k")
		st = o.NextStream(t)
		expect(t, st, cds, "[] held=[a b] node")
		st.Respond(t, cds, "1", cluster("a", 1))
		expect(t, st, cds, "[] nonce=n1")
		c.want(cds, "b")
		expect(t, st, cds, "[* b]")
		c.drop(cds, "*")
		expect(t, st, cds, "[] -[* a]")
		time.Sleep(2 * sweepQuiet) //nolint:forbidigo // virtual time
		c.waitState(cds, "b")
		st.RespondRemoved(t, cds, "2", "b")
		c.waitState(cds, "-b")
	})
}

// TestFailover: C15: a worse address is used only if the better one cannot be reached and something
// is missing; versions of one server are not sent to another (C1, C8); the better one is used again
// from its first response on.
func TestFailover(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		first, second := memory.NewOrigin(t), memory.NewOrigin(t)
		c := newRig(t, fast(delta, first.Addr(), second.Addr())).join("k").want(cds, "*")
		st := first.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("a", 1), cluster("old", 1))
		c.waitState(cds, "a old")
		first.Stop()
		c.waitUpstream(false)
		second.NoStream(t, quiet) // all is cached

		c.want(eds, "e")
		st2 := second.NextStream(t)
		r := st2.NextRequestOf(t, cds)
		if r.Version != "" || len(r.Initial) != 0 {
			t.Fatalf("versions of the first address were told to the second: %s", r)
		}
		if r = st2.NextRequestOf(t, eds); saw(r) != "[e]" && saw(r) != "[e] node" {
			t.Fatalf("got %s", r)
		}
		st2.Respond(t, eds, "1", endpoints("e", 1))
		c.waitState(eds, "e")
		c.waitUpstream(true)
		st2.Respond(t, cds, "1", cluster("a", 2)) // the same version, other content
		c.waitState(cds, "a")                     // the second server does not know "old"

		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		st = first.NextStream(t)
		if r := st.NextRequestOf(t, cds); r.Version != "" || len(r.Initial) != 0 {
			t.Fatalf("versions of the second address were told to the first: %s", r)
		}
		c.want(eds, "f") // requested from both while both are connected
		expect(t, st2, eds, either(delta, "[] nonce=n1", "[e] version=1 nonce=n1"))
		expect(t, st2, eds, either(delta, "[f]", "[e f] version=1 nonce=n1"))
		st.Respond(t, cds, "1", cluster("a", 3), cluster("old", 1))
		st2.WaitClosed(t)
		c.waitState(cds, "a old")
		c.waitUpstream(true)
		second.NoStream(t, quiet)
		st.NextRequestOf(t, eds) // the first one of this stream
		expect(t, st, eds, either(delta, "[f]", "[e f]"))
		c.want(eds, "g") // C1: the version of the second is not repeated here
		expect(t, st, eds, either(delta, "[g]", "[e f g]"))
	})
}

// TestFailoverAsksOnce: C15: while the better server takes a stream and ends it without an answer, the
// one in use is sent what changes meanwhile, once, and nothing else again.
func TestFailoverAsksOnce(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		first, second := memory.NewOrigin(t), memory.NewOrigin(t)
		first.Stop()
		r := newRigOf(t, must(NewControlPlane(fast(delta, first.Addr(), second.Addr()))), -1)
		c := r.join("k").want(eds, "e", "f")
		st2 := second.NextStream(t)
		expect(t, st2, eds, "[e f] node")
		st2.Respond(t, eds, "1", endpoints("e", 1), endpoints("f", 1))
		c.waitState(eds, "e f")
		expect(t, st2, eds, either(delta, "[] nonce=n1", "[e f] version=1 nonce=n1"))

		if err := first.Start(); err != nil {
			t.Fatal(err)
		}
		st := first.NextStream(t)
		expect(t, st, eds, "[e f] node")
		c.want(eds, "g")
		expect(t, st, eds, either(delta, "[g]", "[e f g]"))
		expect(t, st2, eds, either(delta, "[g]", "[e f g] version=1 nonce=n1"))
		first.Stop()
		st2.Quiet(t, quiet)
	})
}

// TestFailoverFromTheStart: C15: with an empty cache the second address is used as soon as the
// first cannot be reached, and the third only after the second.
func TestFailoverFromTheStart(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		first, second, third := memory.NewOrigin(t), memory.NewOrigin(t), memory.NewOrigin(t)
		first.Stop()
		c := newRig(t, fast(delta, first.Addr(), second.Addr(), third.Addr())).join("k").want(cds, "*")
		st := second.NextStream(t)
		third.NoStream(t, quiet)
		st.Close(status.New(codes.Unavailable, "not here either"))
		st = third.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("a", 1))
		c.waitState(cds, "a")
	})
}

// TestLargeResponse: C17: a response of 20 MiB arrives; one above the limit ends the stream, with
// growing pauses although the stream had received others.
func TestLargeResponse(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(xdstest.SecretType, "s")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, xdstest.SecretType, "1", xdstest.Secret("s", string(make([]byte, 20<<20)), "k"))
		c.waitState(xdstest.SecretType, "s")

		cfg := fast(delta, o.Addr())
		cfg.MaxReceiveBytes = 1 << 20
		c = newRig(t, cfg).join("k").want(xdstest.SecretType, "s")
		st = o.NextStream(t)
		st.Respond(t, xdstest.SecretType, "1", xdstest.Secret("s", string(make([]byte, 2<<20)), "k"))
		st.WaitClosed(t)
		c.waitUpstream(false)
		if err := c.group.Upstream().Err; status.Code(err) != codes.ResourceExhausted {
			t.Fatalf("err %v", err)
		}
	})
}

// TestSendTimeout: a server that reads no requests does not block the key indefinitely.
func TestSendTimeout(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewStateOrigin(t, nil)
		o.Set("", cluster("a", 1))
		n := memory.NewNetwork(t, o.Addr())
		cfg := fast(delta, n.Addr())
		cfg.SendTimeout = 50 * time.Millisecond
		r := newRig(t, cfg)
		c := r.join("k").want(cds, "*")
		c.waitState(cds, "a")
		n.Stall(xdstest.BothWays)
		flood := r.join("k")
		for i := range 20 { // more than flow control allows
			names := make([]string, 2000)
			for j := range names {
				names[j] = fmt.Sprintf("cluster-with-a-long-name-%d-%d", i, j)
			}
			flood.want(cds, names...)
		}
		c.waitUpstream(false)
		if err := c.group.Upstream().Err; !strings.Contains(err.Error(), "read no request") {
			t.Fatalf("err %v", err)
		}
		if err := n.Heal(); err != nil {
			t.Fatal(err)
		}
		o.Set("", cluster("b", 1))
		c.waitState(cds, "a b")
	})
}

// TestManyNamesHeld: C8: versions that do not fit in a request are left out, and resources that the
// control plane does not mention then are removed.
func TestManyNamesHeld(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(true, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		long := string(make([]byte, 3<<20))
		st.Respond(t, cds, long, cluster("a", 1))
		st.Respond(t, cds, "1", cluster("b", 1))
		c.waitState(cds, "a b")
		st.Close(nil)
		st = o.NextStream(t)
		if r := st.NextRequest(t); len(r.Initial) != 0 {
			t.Fatalf("%d versions", len(r.Initial))
		}
		st.Respond(t, cds, "1", cluster("b", 1))
		c.waitState(cds, "b")
	})
}

// TestClose: a closed client leaves its keys unchanged, and their contexts still end them.
func TestClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewStateOrigin(t, nil)
		o.Set("", cluster("a", 1))
		r := newRig(t, fast(true, o.Addr()))
		c := r.join("k").want(cds, "*")
		c.waitState(cds, "a")
		r.cp.Close()
		c.waitUpstream(false)
		c.waitState(cds, "a")
	})
}

// TestConfig: invalid values are rejected, with the reason, and the defaults are those of C12, C13
// and C17.
func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*ControlPlaneConfig){
		"no address":       func(c *ControlPlaneConfig) { c.Addresses = nil },
		"empty address":    func(c *ControlPlaneConfig) { c.Addresses = []string{""} },
		"address twice":    func(c *ControlPlaneConfig) { c.Addresses = []string{"a:1", "a:1"} },
		"bad target":       func(c *ControlPlaneConfig) { c.Addresses = []string{"dns:///\x7f"} },
		"short keepalive":  func(c *ControlPlaneConfig) { c.KeepaliveTime = time.Second },
		"negative absence": func(c *ControlPlaneConfig) { c.AbsentAfter = -1 },
		"negative limit":   func(c *ControlPlaneConfig) { c.MaxReceiveBytes = -1 },
		"shrinking pauses": func(c *ControlPlaneConfig) { c.Backoff.Multiplier = 0.5 },
		"full jitter":      func(c *ControlPlaneConfig) { c.Backoff.Jitter = 1 },
		"max below first":  func(c *ControlPlaneConfig) { c.Backoff = Backoff{Initial: time.Minute, Max: time.Second} },
		"wildcard form":    func(c *ControlPlaneConfig) { c.Wildcard = 7 },
	} {
		cfg := ControlPlaneConfig{Addresses: []string{"localhost:1"}}
		change(&cfg)
		if cp, err := NewControlPlane(cfg); err == nil {
			cp.Close()
			t.Errorf("%s: accepted", name)
		}
	}
	cp := must(NewControlPlane(ControlPlaneConfig{Addresses: []string{"localhost:1"}}))
	defer cp.Close()
	b := Backoff{Initial: time.Second, Multiplier: 1.6, Jitter: 0.2, Max: 30 * time.Second} // C13
	if c := cp.cfg; c.Backoff != b || c.AbsentAfter != 15*time.Second || c.MaxReceiveBytes != 64<<20 || c.KeepaliveTime <= 5*time.Minute {
		t.Fatalf("defaults: %+v", cp.cfg)
	}
}

// TestUnnamed: C5: a position that replaces a name is distinguished from a name.
func TestUnnamed(t *testing.T) {
	for name, want := range map[string]bool{"": true, "#0": true, "#12": true, "#1a": false, "a": false, "#": true} {
		if unnamed(name) != want {
			t.Errorf("unnamed(%q) is not %v", name, want)
		}
	}
	names, ok := namesOf([]resource.Invalid{{Name: "a", Err: errors.New("x")}, {Name: "#1", Err: errors.New("x")}})
	if ok || len(names) != 1 {
		t.Errorf("names %v, %v", names, ok)
	}
}
