package upstream

import (
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/upstream/conversation"
)

// envelope is a resource in an envelope; without a body it is a heartbeat.
func envelope(m proto.Message, version string, ttl time.Duration, body bool) *discoveryv3.Resource {
	r := &discoveryv3.Resource{Name: xdstest.NameOf(m), Version: version, Ttl: durationpb.New(ttl)}
	if body {
		r.Resource = xdstest.Any(m)
	}
	return r
}

// say sends an envelope in the variant of the stream.
func say(t *testing.T, st *xdstest.OriginStream, typeURL, version, nonce string, r *discoveryv3.Resource) {
	t.Helper()
	var m proto.Message = &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, SystemVersionInfo: version, Nonce: nonce, Resources: []*discoveryv3.Resource{r}}
	if !st.Variant.Delta {
		m = &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: version, Nonce: nonce, Resources: []*anypb.Any{xdstest.Any(r)}}
	}
	if err := st.Send(m); err != nil {
		t.Fatal(err)
	}
}

// timed is what the client sees if it supports TTLs.
func (c *client) timed(typeURL string, since cache.Position) cache.Changes {
	got, err := c.table(typeURL).Changes(c.watcher(typeURL), cache.Query{Since: since, Reader: cache.TTLClient})
	if err != nil {
		c.rig.t.Errorf("changes of %s: %v", typeURL, err)
	}
	return got
}

// TestLifetimesOfAnOrigin: C17, F6, F7, D9: the TTL of an envelope applies in both variants, and a
// heartbeat is acknowledged and keeps the resource.
func TestLifetimesOfAnOrigin(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(eds, "a")
		st := o.NextStream(t)
		expect(t, st, eds, "[a] node")
		say(t, st, eds, "v1", "n1", envelope(endpoints("a", 1), "v1", time.Minute, true))
		expect(t, st, eds, either(delta, "[] nonce=n1", "[a] version=v1 nonce=n1"))
		c.waitState(eds, "a")
		first := c.timed(eds, cache.Start)
		if left := first.Lifetimes[first.Resources[0]]; left > time.Minute || left < 50*time.Second {
			t.Fatalf("%v left of a minute", left)
		}
		for i, nonce := range []string{"n2", "n3", "n4", "n5", "n6"} {
			say(t, st, eds, "v1", nonce, envelope(endpoints("a", 1), "v1", time.Hour, false))
			expect(t, st, eds, either(delta, "[] nonce="+nonce, "[a] version=v1 nonce="+nonce))
			got := c.timed(eds, first.To)
			if len(got.Heartbeats) != 1 || len(got.Resources) > 0 || got.Lifetimes[got.Heartbeats[0]] < 50*time.Minute {
				t.Fatalf("heartbeat %d: %+v", i, got)
			}
			first.To = got.To
		}
		if delta { // with another version it is not a heartbeat
			say(t, st, eds, "v1", "n7", envelope(endpoints("a", 1), "v0", time.Hour, false))
			expect(t, st, eds, "[] nonce=n7")
			if got := c.timed(eds, first.To); !got.Empty() {
				t.Fatalf("told %+v", got)
			}
		}
	})
}

// TestSteadyHeartbeatsAreAcknowledgedAtOnce: C3: a control plane that repeats resources with a TTL
// is not in a loop.
func TestSteadyHeartbeatsAreAcknowledgedAtOnce(t *testing.T) {
	a := &conversation.Conversation{State: conversation.State{Scope: conversation.Names}}
	delay := func(c *conversation.Conversation, rsp *resource.Response, now time.Time) time.Duration {
		defer c.Replied(nil)
		return c.Accept(rsp, 0, now)
	}
	living, other := responseOf(t, envelope(endpoints("a", 1), "v1", time.Minute, true)), responseOf(t, &discoveryv3.Resource{Name: "a", Resource: xdstest.Any(endpoints("a", 1))})
	now := time.Now()
	for range 50 {
		now = now.Add(conversation.MinHeartbeat)
		if wait := delay(a, living, now); wait > 0 {
			t.Fatalf("a heartbeat waits %v", wait)
		}
	}
	var wait time.Duration
	for range 10 {
		now = now.Add(conversation.MinHeartbeat / 2)
		wait = delay(a, living, now)
	}
	if wait == 0 {
		t.Fatal("a flood of them does not wait")
	}
	b := &conversation.Conversation{State: conversation.State{Scope: conversation.Names}}
	for range 10 {
		now = now.Add(conversation.MinHeartbeat)
		wait = delay(b, other, now)
	}
	if wait == 0 {
		t.Fatal("the same again and again does not wait")
	}
}

// TestAnnouncedFeatures: C17: the node announces the features of the relay, whatever its clients
// support.
func TestAnnouncedFeatures(t *testing.T) {
	rules, err := aggregation.Compile(nil, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := rules.Resolve(xdstest.Node("client", "test-cluster"), aggregation.Peer{})
	if err != nil {
		t.Fatal(err)
	}
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		r := newRig(t, fast(delta, o.Addr()))
		c := &client{rig: r, group: r.cache.Join(res.Key, res.Node), watchers: make(map[string]*cache.Watcher), wants: make(map[string]map[string]bool)}
		c.want(eds, "a")
		has := make(map[string]bool)
		for _, f := range o.NextStream(t).NextRequest(t).Node.GetClientFeatures() {
			has[f] = true
		}
		if !has["xds.config.supports-resource-ttl"] || !has["xds.config.resource-in-sotw"] {
			t.Fatalf("features %v", has)
		}
	})
}

// responseOf decodes a response with one resource like the relay.
func responseOf(t *testing.T, r *discoveryv3.Resource) *resource.Response {
	t.Helper()
	b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: eds, SystemVersionInfo: "v1", Resources: []*discoveryv3.Resource{r}})
	if err != nil {
		t.Fatal(err)
	}
	rsp, err := resource.DecodeDelta(b)
	if err != nil {
		t.Fatal(err)
	}
	return rsp
}

func resourceError(name string, code int32) *discoveryv3.ResourceError {
	return &discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: &statuspb.Status{Code: code, Message: "no"}}
}

// TestErrorsOfAnOrigin: C16, A7: an error ends the wait for a name, and keeps a cached copy unless
// it is NOT_FOUND. It is passed on, as are removals by name and unknown fields of a response.
func TestErrorsOfAnOrigin(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := memory.NewOrigin(t)
		cfg := fast(delta, o.Addr())
		cfg.AbsentAfter = 200 * time.Millisecond
		c := newRig(t, cfg).join("k").want(eds, "a", "y", "z")
		st := o.NextStream(t)
		expect(t, st, eds, "[a y z] node")
		st.Respond(t, eds, "v1", endpoints("a", 1))
		c.waitState(eds, "a")
		es := []*discoveryv3.ResourceError{resourceError("y", 14), resourceError("z", 5), resourceError("a", 14)}
		unknown := protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "from the future")
		var m proto.Message = &discoveryv3.DiscoveryResponse{TypeUrl: eds, VersionInfo: "v2", Nonce: "n2", ResourceErrors: es}
		if delta {
			d := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: eds, Nonce: "n2", ResourceErrors: es, RemovedResourceNames: []*discoveryv3.ResourceName{{Name: "z"}}}
			d.ProtoReflect().SetUnknown(unknown)
			m = d
		}
		if err := st.Send(m); err != nil {
			t.Fatal(err)
		}
		c.waitState(eds, "a -z")
		got := c.timed(eds, cache.Start)
		later := c.timed(eds, got.To) // the error of a arrives after the resource
		if len(got.Errors)+len(later.Errors) != 3 {
			t.Fatalf("told %d and %d errors", len(got.Errors), len(later.Errors))
		}
		if delta && (len(got.RemovedNames)+len(later.RemovedNames) != 1 || string(got.Extra)+string(later.Extra) != string(unknown)) {
			t.Fatalf("told %q, %q and %q, %q", got.RemovedNames, got.Extra, later.RemovedNames, later.Extra)
		}
		st.NextRequest(t)
		st.NextRequest(t) // the ACKs
		st.Quiet(t, 2*cfg.AbsentAfter)
		if s := c.state(eds); s != "a -z" {
			t.Fatalf("after the timer the state is %q", s) // y may exist
		}
	})
}
