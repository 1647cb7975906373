package upstream

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestNamelessIsNotClaimed: resources that istiod sends without names are not listed on a new
// stream. istiod takes listed names for names whose removal it has to report, and removes the name
// in the response that carries the resource (C8). So it sends the resource again, and a removal
// without a name removes it.
func TestNamelessIsNotClaimed(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		const nds = resource.NameTableURL
		send := func(st *xdstest.OriginStream, nonce string, bodies ...string) {
			t.Helper()
			var sotw []*anypb.Any
			var wrapped []*discoveryv3.Resource
			for _, b := range bodies {
				body := &anypb.Any{TypeUrl: nds, Value: []byte(b)}
				sotw, wrapped = append(sotw, body), append(wrapped, &discoveryv3.Resource{Resource: body})
			}
			var m proto.Message = &discoveryv3.DiscoveryResponse{TypeUrl: nds, VersionInfo: nonce, Nonce: nonce, Resources: sotw}
			if delta {
				m = &discoveryv3.DeltaDiscoveryResponse{TypeUrl: nds, SystemVersionInfo: nonce, Nonce: nonce, Resources: wrapped}
			}
			if err := st.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		o := memory.NewOrigin(t)
		c := newRig(t, fast(delta, o.Addr())).join("k").want(nds, "*")
		st := o.NextStream(t)
		expect(t, st, nds, "[] node")
		send(st, "1", "\x0a\x05hosts")
		expect(t, st, nds, either(delta, "[]", "[] version=1")+" nonce=1")
		c.waitState(nds, "NameTable")
		send(st, "2", "\x0a\x04less")
		c.waitState(nds, "NameTable")
		st.NextRequestOf(t, nds)
		st.Close(status.New(codes.Unavailable, "restarting"))

		st = o.NextStream(t)
		expect(t, st, nds, either(delta, "[] node", "[] version=2 node"))
		if got := c.state(nds); got != "NameTable" {
			t.Fatalf("before the origin has answered there is %q", got)
		}
		send(st, "3", "\x0a\x04more")
		expect(t, st, nds, either(delta, "[]", "[] version=3")+" nonce=3")
		c.waitState(nds, "NameTable")
		if delta {
			st.RespondRemoved(t, nds, "4", "")
		} else {
			send(st, "4")
		}
		c.waitState(nds, "")
	})
}
