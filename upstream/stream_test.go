package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/xdstest"
)

const (
	cds   = xdstest.ClusterType
	eds   = xdstest.EndpointType
	lds   = xdstest.ListenerType
	quiet = 60 * time.Millisecond
)

func cluster(name string, salt int) proto.Message   { return xdstest.Synthetic(cds, name, salt) }
func endpoints(name string, salt int) proto.Message { return xdstest.Synthetic(eds, name, salt) }

// TestFirstRequests: C1, C7, K4, K9, D10: there is no stream before there is demand. Only the first
// message has the node. Each type starts with all its names and an empty nonce and version. Nothing
// is requested that no client wants.
func TestFirstRequests(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k")
		o.NoStream(t, quiet)
		c.want(cds, "*").want(eds, "b", "a")
		st := o.NextStream(t)
		if st.Variant.Delta != delta || st.Variant.Service != "" {
			t.Fatalf("the stream is %s", st.Variant)
		}
		first := st.NextRequest(t)
		if got := saw(first); got != "[] node" && got != "[a b] node" {
			t.Fatalf("first request: %s", got)
		}
		if first.Node.GetId() != "relay/k" {
			t.Fatalf("node %v", first.Node)
		}
		if first.TypeURL == cds {
			expect(t, st, eds, "[a b]")
		}
		st.Quiet(t, quiet)

		// K9: a subscription that exists already costs nothing.
		c2 := c.rig.join("k").want(eds, "a")
		st.Quiet(t, quiet)
		c2.want(eds, "c")
		expect(t, st, eds, either(delta, "[c]", "[a b c]"))
	})
}

// TestWildcardForms: D10 in both variants, for types with and without a legacy form, and with the
// switch.
func TestWildcardForms(t *testing.T) {
	for _, star := range []bool{false, true} {
		t.Run(fmt.Sprintf("star=%v", star), func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				o := memory.NewOrigin(t)
				cfg := fast(delta, o.Addr())
				if star {
					cfg.Wildcard = WildcardStar
				}
				c := newRigOf(t, must(NewControlPlane(cfg)), -1).join("k").want(cds, "*")
				st := o.NextStream(t)
				legacy := "[]"
				if star {
					legacy = "[*]"
				}
				expect(t, st, cds, legacy+" node")
				n := st.Respond(t, cds, "1")
				since := either(delta, "", " version=1 nonce="+n)
				expect(t, st, cds, either(delta, "[] nonce="+n, legacy+since))
				c.want(cds, "a")
				expect(t, st, cds, either(delta && star, "[a]", "[* a]")+since) // never [a] alone while the form is legacy
				c.drop(cds, "*")
				expect(t, st, cds, either(delta, "[] -[*]", "[a]")+since)
				c.drop(cds, "a")
				expect(t, st, cds, either(delta, "[] -[a]", "[]")+since)
				c.want(cds, "*")
				st.WaitClosed(t) // a response that crosses it would be ambiguous; on SotW, K13: this server might see no change in it
				st = o.NextStream(t)
				expect(t, st, cds, legacy+" node")
				c.want(eds, "*") // has no legacy form
				expect(t, st, eds, "[*]")
			})
		})
	}
}

func must(cp *ControlPlane, err error) *ControlPlane {
	if err != nil {
		panic(err)
	}
	return cp
}

// TestLegacyWildcardIsLeft: C7, B20: on SotW an empty list would mean the wildcard again, so the
// stream ends together with it. B23: on delta one message names and unsubscribes it, and its
// resources with it.
func TestLegacyWildcardIsLeft(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRigOf(t, must(NewControlPlane(fast(delta, o.Addr()))), -1).join("k").want(cds, "*")
		st := o.NextStream(t)
		expect(t, st, cds, "[] node")
		n := st.Respond(t, cds, "1", cluster("a", 1), cluster("b", 1))
		expect(t, st, cds, either(delta, "[]", "[] version=1")+" nonce="+n)
		c.drop(cds, "*")
		if delta {
			expect(t, st, cds, "[*] -[* a b]")
		} else {
			st.WaitClosed(t)
			st = o.NextStream(t)
			if !c.group.Upstream().Connected {
				t.Error("a stream that is opened anew counts as lost")
			}
		}
		c.want(cds, "a")
		if delta {
			expect(t, st, cds, "[] -[a]") // a change may have crossed the first unsubscription
		}
		expect(t, st, cds, either(delta, "[a]", "[a] node"))
		st.Quiet(t, quiet)
	})
}

// TestNamesBesideTheFirstResponse: on SotW a server ignores what crosses its first response (B8), so a
// list that named the wildcard may not have replaced the one without names. Clients that want nothing
// more, or names alone, before a reply has named it are served on a new stream (C7).
func TestNamesBesideTheFirstResponse(t *testing.T) {
	for name, then := range map[string]struct {
		drop    []string
		request string
	}{
		"nothing":  {[]string{"*", "a"}, ""},
		"a name":   {[]string{"*"}, "[a] node"},
		"the rest": {[]string{"a"}, "[*]"},
	} {
		t.Run(name, func(t *testing.T) {
			o := memory.NewOrigin(t)
			c := newRigOf(t, must(NewControlPlane(fast(false, o.Addr()))), -1).join("k").want(cds, "*")
			st := o.NextStream(t)
			expect(t, st, cds, "[] node")
			c.want(cds, "a")
			expect(t, st, cds, "[* a]")
			c.drop(cds, then.drop...)
			if then.request == "[*]" {
				expect(t, st, cds, then.request)
				n := st.Respond(t, cds, "1", cluster("a", 1))
				expect(t, st, cds, "[*] version=1 nonce="+n)
				c.drop(cds, "*")
				expect(t, st, cds, "[] version=1 nonce="+n)
				return
			}
			st.WaitClosed(t)
			if then.request != "" {
				st = o.NextStream(t)
				expect(t, st, cds, then.request)
			}
		})
	}
}

// TestNonces: C2: every SotW request of the type has the newest nonce, also after an empty set; C6:
// on delta only answers have one.
func TestNonces(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRigOf(t, must(NewControlPlane(fast(delta, o.Addr()))), -1).join("k").want(eds, "a")
		st := o.NextStream(t)
		expect(t, st, eds, "[a] node")
		n := st.Respond(t, eds, "1", endpoints("a", 1))
		expect(t, st, eds, either(delta, "[] nonce="+n, "[a] version=1 nonce="+n))
		c.drop(eds, "a")
		expect(t, st, eds, either(delta, "[] -[a]", "[] version=1 nonce="+n))
		c.want(eds, "a")
		if delta {
			expect(t, st, eds, "[] -[a]") // a change may have crossed the first unsubscription
		}
		expect(t, st, eds, either(delta, "[a]", "[a] version=1 nonce="+n))
		st.Quiet(t, quiet)
	})
}

// TestEveryResponseIsAnswered: C3, K1: once, in order, whatever the clients do.
func TestEveryResponseIsAnswered(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		var nonces []string
		for i := range 100 {
			nonces = append(nonces, st.Respond(t, cds, fmt.Sprint(i), cluster("a", i)))
		}
		for i, n := range nonces {
			if r := st.NextRequest(t); r.Nonce != n || !r.IsAck() {
				t.Fatalf("answer %d: %s, expected an ACK of %s", i, r, n)
			}
		}
		st.Quiet(t, quiet)
		if got := string(c.bodies(cds)["a"]); got != string(marshal(t, cluster("a", 99))) {
			t.Fatalf("the cache does not hold the last state")
		}
	})
}

// marshal returns the body of a resource as the cache stores it: an encoded Any (D2).
func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(xdstest.Any(m))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRefusal: C4, C5, K18: resources that cannot be decoded are NACKed by name, the others are
// used, the last good copy stays, and nothing is removed because of such a response.
func TestRefusal(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "7", cluster("bad", 1), cluster("gone", 1))
		st.NextRequest(t)

		broken := proto.Clone(xdstest.Any(cluster("bad", 2))).(*anypb.Any)
		broken.Value = append(broken.Value, 0xff) // a truncated tag after the name
		n := st.Respond(t, cds, "8", cluster("good", 1), xdstest.Named{Message: broken, Name: "bad"})
		r := st.NextRequestOf(t, cds)
		if !r.IsNack() || r.Nonce != n || r.Error.GetCode() != int32(codes.InvalidArgument) || r.Version != either(delta, "", "7") {
			t.Fatalf("expected a NACK of %s that keeps version 7, got %s", n, r)
		}
		if msg := r.Error.GetMessage(); !strings.Contains(msg, `"bad"`) && !strings.Contains(msg, "#1") {
			t.Fatalf("the NACK names no resource: %s", msg)
		}
		// On delta, and while the name of the invalid resource is unknown, absence means nothing.
		if got := c.state(cds); !strings.Contains(got, "good") || !strings.Contains(got, "bad") || strings.Contains(got, "-") {
			t.Fatalf("state %q", got)
		}
		if string(c.bodies(cds)["bad"]) != string(marshal(t, cluster("bad", 1))) {
			t.Fatal("the last good copy is gone")
		}

		n = st.Respond(t, cds, "9", cluster("bad", 3), cluster("good", 1))
		if r = st.NextRequestOf(t, cds); !r.IsAck() || r.Nonce != n {
			t.Fatalf("expected an ACK, got %s", r)
		}
		c.waitState(cds, either(delta, "bad gone good", "bad good"))
	})
}

// TestRefusalKeepsNamedResources: C5 on a full state: for an invalid copy with a name (here one
// that its body contradicts, A3) the last good one is kept (K18), and absent resources are still
// removed.
func TestRefusalKeepsNamedResources(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(false, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, cds, "1", cluster("bad", 1), cluster("gone", 1))
		st.NextRequest(t)
		wrong := xdstest.Any(&discoveryv3.Resource{Name: "bad", Resource: xdstest.Any(cluster("other", 1))}) // A3
		send(t, st, &discoveryv3.DiscoveryResponse{TypeUrl: cds, VersionInfo: "2", Nonce: "x", Resources: []*anypb.Any{wrong}})
		if r := st.NextRequest(t); !r.IsNack() || r.Version != "1" {
			t.Fatalf("got %s", r)
		}
		c.waitState(cds, "bad")
	})
}

func send(t *testing.T, st *xdstest.OriginStream, m proto.Message) {
	t.Helper()
	if err := st.Send(m); err != nil {
		t.Fatal(err)
	}
}

// TestRefusalTextIsBounded: C4.
func TestRefusalTextIsBounded(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		var bad []proto.Message
		for i := range 1000 {
			bad = append(bad, xdstest.Named{Name: strings.Repeat("é", 700) + fmt.Sprint(i), Message: &anypb.Any{TypeUrl: cds, Value: []byte{0xff}}})
		}
		st.Respond(t, cds, "1", bad...)
		r := st.NextRequest(t)
		if msg := r.Error.GetMessage(); !r.IsNack() || len(msg) > 4<<10 || !utf8.ValidString(msg) || !strings.Contains(msg, "more") {
			t.Fatalf("%d bytes: %s", len(msg), msg)
		}
	})
}

// TestRejectedAgainAndAgain: a server that immediately resends rejected resources (O1) does not
// cause a loop, and every frame is still answered (C3).
func TestRejectedAgainAndAgain(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "a")
		st := o.NextStream(t)
		st.NextRequest(t)
		bad := &anypb.Any{TypeUrl: cds, Value: []byte{0xff}}
		begin := time.Now()
		for range 4 {
			n := st.Respond(t, cds, "1", xdstest.Named{Name: "a", Message: bad})
			if r := st.NextRequest(t); !r.IsNack() || r.Nonce != n {
				t.Fatalf("got %s", r)
			}
		}
		if took := time.Since(begin); took < 300*time.Millisecond { // 0 + 50·(2+4+8) ms of delay, no less
			t.Fatalf("four rejections in %v: nothing slows them down", took)
		}
		// A subscription neither overtakes the delayed NACK nor waits for it.
		n := st.Respond(t, cds, "1", xdstest.Named{Name: "a", Message: bad})
		m := st.Respond(t, cds, "1", xdstest.Named{Name: "a", Message: bad})
		if r := st.NextRequest(t); r.Nonce != n || !r.IsNack() {
			t.Fatalf("got %s", r)
		}
		c.want(cds, "b")
		if r := st.NextRequest(t); r.Nonce != m || !r.IsNack() {
			t.Fatalf("got %s", r)
		}
		if r := st.NextRequest(t); r.IsNack() || saw(r) != either(delta, "[b]", "[a b] nonce="+m) {
			t.Fatalf("got %s", r)
		}
	})
}

// TestSentAgainAndAgain: neither does a server that answers each ACK with the same response, as
// go-control-plane's snapshot caches up to v0.14 do if they interpret "*" as a name. New content is
// answered at once.
func TestSentAgainAndAgain(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		newRig(t, fast(delta, o.Addr())).join("k").want(cds, "a")
		st := o.NextStream(t)
		st.NextRequest(t)
		begin := time.Now()
		for range 8 { // the first and three more at once
			n := st.Respond(t, cds, "1", cluster("a", 1))
			if r := st.NextRequest(t); !r.IsAck() || r.Nonce != n {
				t.Fatalf("got %s", r)
			}
		}
		if took := time.Since(begin); took < 300*time.Millisecond { // 50·(2+4+8+16) ms of delay, no less
			t.Fatalf("eight times the same in %v: nothing slows them down", took)
		}
		n := st.Respond(t, cds, "1", cluster("a", 1)) // its ACK would wait
		m := st.Respond(t, cds, "2", cluster("a", 2))
		for _, want := range []string{n, m} {
			if r := st.NextRequest(t); !r.IsAck() || r.Nonce != want {
				t.Fatalf("got %s, expected the ACK of %s", r, want)
			}
		}
	})
}

// TestUnrequestedType: C10: neither ACKed nor NACKed, and reading continues; resources of a
// requested type that were not requested are ACKed and ignored.
func TestUnrequestedType(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "a")
		st := o.NextStream(t)
		st.NextRequest(t)
		st.Respond(t, xdstest.RuntimeType, "1", xdstest.Runtime("r", nil))
		n := st.Respond(t, cds, "1", cluster("a", 1), cluster("b", 1))
		if r := st.NextRequest(t); r.TypeURL != cds || !r.IsAck() || r.Nonce != n {
			t.Fatalf("got %s", r)
		}
		st.Quiet(t, quiet)
		c.waitState(cds, "a")
	})
}

// TestAbsenceIsDeletion: C11, D3, D4: absence from a full state removes, but only resources that
// existed before; for other types it means nothing.
func TestAbsenceIsDeletion(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(false, o.Addr())).join("k").want(cds, "a").want(eds, "a", "b")
		st := o.NextStream(t)
		st.Respond(t, cds, "1", cluster("a", 1))
		c.waitState(cds, "a")
		c.want(cds, "b")
		st.Respond(t, cds, "2", cluster("a", 2)) // crossed the request for b
		st.Respond(t, cds, "3", cluster("b", 1))
		c.waitState(cds, "b -a")

		st.Respond(t, eds, "1", endpoints("a", 1), endpoints("b", 1))
		c.waitState(eds, "a b")
		st.Respond(t, eds, "2", endpoints("a", 2))
		xdstest.Eventually(t, "the new endpoints", func() bool {
			return string(c.bodies(eds)["a"]) == string(marshal(t, endpoints("a", 2)))
		})
		if got := c.state(eds); got != "a b" {
			t.Fatalf("state %q", got)
		}
	})
}

// TestDeltaOnlyTypesOverSotW: D8: never requested, absent at once, even while the control plane
// cannot be reached.
func TestDeltaOnlyTypesOverSotW(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		o.Stop()
		c := newRig(t, fast(false, o.Addr())).join("k").want(xdstest.VirtualHostType, "rc/h", "*")
		c.waitState(xdstest.VirtualHostType, "-rc/h")
		if !c.sees(xdstest.VirtualHostType).Known {
			t.Fatal("the wildcard was not answered")
		}
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
		o.NoStream(t, quiet)
		c.want(cds, "a")
		st := o.NextStream(t)
		expect(t, st, cds, "[a] node")
		st.Quiet(t, quiet)
	})
}

// TestSplitAnswer: K13: the first of several large delta frames does not complete the wildcard; a
// pause after the last one does.
func TestSplitAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(true, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		big := cluster("big", 1)
		proto.Merge(big, xdstest.Cluster(strings.Repeat("x", 1<<20), 0))
		st.Respond(t, cds, "1", xdstest.Named{Name: strings.Repeat("x", 1<<20), Message: big})
		st.NextRequest(t)
		if c.sees(cds).Known {
			t.Fatal("known after one part")
		}
		st.Respond(t, cds, "1", cluster("small", 1))
		st.NextRequest(t)
		xdstest.Eventually(t, "the answer to be complete", func() bool { return c.sees(cds).Known })
	})
}

// TestUnreadableResponse: a malformed message ends the stream, with backoff, and keeps what is
// cached.
func TestUnreadableResponse(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.Respond(t, cds, "1", cluster("a", 1))
		c.waitState(cds, "a")
		send(t, st, &discoveryv3.DiscoveryResponse{Nonce: "no type"})
		st.WaitClosed(t)
		o.NextStream(t).NextRequest(t)
		c.waitState(cds, "a")
	})
}

// TestUp: the key is up once the server takes part in the stream: with its first response, or when
// silence can only mean that it has nothing new.
func TestUp(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(cds, "*")
		st := o.NextStream(t)
		st.NextRequest(t)
		if c.group.Upstream().Connected {
			t.Fatal("up before the server has said anything")
		}
		st.Respond(t, cds, "1", cluster("a", 1))
		c.waitUpstream(true)
		st.Close(status.New(codes.Unavailable, "restarting"))
		c.waitUpstream(false)
		if err := c.group.Upstream().Err; !strings.Contains(err.Error(), "restarting") {
			t.Fatalf("err %v", err)
		}
		o.NextStream(t).NextRequest(t) // and silence
		c.waitUpstream(true)
		c.waitState(cds, "a") // C14
	})
}
