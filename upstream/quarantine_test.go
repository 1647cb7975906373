package upstream

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// rds is what new clients subscribe to there.
const rds = xdstest.RouteType

func route(name string, salt int) proto.Message { return xdstest.Synthetic(rds, name, salt) }

// unknownType is a type that no control plane of these tests knows.
const unknownType = "type.googleapis.com/unknown.Type"

// TestUnknownTypeHarmsNobody: a real go-control-plane server ends the stream after a request for a
// type that it does not know. The other clients of the key still receive their updates, and types
// that are new to the key, too.
func TestUnknownTypeHarmsNobody(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := memory.NewLinearControlPlane(t)
		cp.SetLinear(t, cluster("a", 0), endpoints("e", 0), route("r", 0))
		r := newRig(t, fast(delta, cp.Addr()))
		good := r.join("k").want(cds, "*")
		good.waitState(cds, "a")
		bad := r.join("k").want(unknownType, "x")
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
		streams := cp.Counts().Streams
		for i := range 100 {
			cp.SetLinear(t, cluster("a", i+1))
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time
			if got := string(good.bodies(cds)["a"]); got != string(marshal(t, cluster("a", i+1))) {
				t.Fatalf("change %d has not come within 100ms", i+1)
			}
			if !good.group.Upstream().Connected {
				t.Fatalf("the key has no stream: %v", good.group.Upstream().Err)
			}
		}
		if n := cp.Counts().Streams - streams; n > 4 {
			t.Errorf("%d streams in 10s", n)
		}
		if got := bad.state(unknownType); got != "" {
			t.Errorf("of the unknown type the state is %q, expected that nothing is known", got)
		}
		// More of them, and known types among them.
		for i := range 20 {
			bad.want(fmt.Sprint(unknownType, i), "x")
		}
		good.want(eds, "e").want(rds, "r")
		good.waitState(eds, "e")
		good.waitState(rds, "r")
		cp.SetLinear(t, endpoints("e", 1), route("r", 1))
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time
		if string(good.bodies(eds)["e"]) != string(marshal(t, endpoints("e", 1))) || string(good.bodies(rds)["r"]) != string(marshal(t, route("r", 1))) {
			t.Error("a change of the new types has not come")
		}
		if open := cp.Counts().Open; open > 2 {
			t.Errorf("%d streams are open", open)
		}
	})
}

// TestUnknownTypeFirst: the same if the unknown type is requested from the first stream on.
func TestUnknownTypeFirst(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		cp := memory.NewLinearControlPlane(t)
		cp.SetLinear(t, cluster("a", 0), endpoints("e", 0))
		r := newRig(t, fast(delta, cp.Addr()))
		r.join("k").want(unknownType, "x")
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		good := r.join("k").want(cds, "*").want(eds, "e")
		good.waitState(cds, "a")
		good.waitState(eds, "e")
		xdstest.Eventually(t, "the stream", func() bool { return good.group.Upstream().Connected })
		time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
		cp.SetLinear(t, cluster("a", 1), endpoints("e", 1))
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // virtual time
		if string(good.bodies(cds)["a"]) != string(marshal(t, cluster("a", 1))) || string(good.bodies(eds)["e"]) != string(marshal(t, endpoints("e", 1))) {
			t.Error("a change has not come")
		}
	})
}
