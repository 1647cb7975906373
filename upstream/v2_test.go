package upstream

import (
	"fmt"
	"testing"

	"xdsrelay/relay/xdstest"
)

// TestVersionOfTheTransport: the version of the transport determines the method, and does not
// restrict resources: those of both versions are requested and accepted, each under its own type
// (J1, J3, J4).
func TestVersionOfTheTransport(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v2=%t", v2), func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				o := memory.NewOrigin(t)
				cfg := fast(delta, o.Addr())
				cfg.V2 = v2
				c := newRig(t, cfg).join("k").want(xdstest.ClusterV2Type, "*").want(xdstest.EndpointV2Type, "b").want(cds, "*")
				st := o.NextStream(t)
				if want := (xdstest.Variant{Delta: delta, V2: v2}); st.Variant != want {
					t.Fatalf("the stream is %s, expected %s", st.Variant, want)
				}
				asked := map[string]bool{}
				for range 3 {
					r := st.NextRequest(t)
					asked[r.TypeURL+fmt.Sprint(append(r.Names, r.Subscribe...))] = true
				}
				for _, want := range []string{cds + "[]", xdstest.ClusterV2Type + "[]", xdstest.EndpointV2Type + "[b]"} {
					if !asked[want] {
						t.Errorf("nobody asked for %s: %v", want, asked)
					}
				}
				st.Respond(t, xdstest.ClusterV2Type, "1", xdstest.V2(cluster("a", 1)))
				c.waitState(xdstest.ClusterV2Type, "a")
				if got := c.state(cds); got != "" {
					t.Errorf("version 3 has %q", got)
				}
				st.Respond(t, cds, "1", cluster("b", 1))
				c.waitState(cds, "b")
				st.Respond(t, xdstest.EndpointV2Type, "1", xdstest.V2(endpoints("b", 1)))
				c.waitState(xdstest.EndpointV2Type, "b")
				c.waitState(xdstest.ClusterV2Type, "a")
				for range 3 {
					if r := st.NextRequest(t); r.Error != nil || r.Nonce == "" {
						t.Errorf("an answer is %s", saw(r))
					}
				}
			})
		})
	}
}
