package conversation

import (
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestCost holds that a demand for names, and a response with its reply, allocate nothing.
func TestCost(t *testing.T) {
	typ := resource.TypeOf("type.googleapis.com/test.A")
	for _, v := range []Variant{SotW, Delta} {
		c := Conversation{Type: typ, Variant: v, State: State{Scope: Names}}
		d := cache.Demand{Names: []string{"a", "b"}, Subscribe: []string{"b"}}
		rsp := &resource.Response{Type: typ, Nonce: "n", Version: "v"}
		now := time.Now()
		if n := testing.AllocsPerRun(100, func() {
			if v == SotW {
				c.AskSotW(&d, nil, true, false)
			} else {
				c.AskDelta(&d, true, false)
			}
			c.Accept(rsp, 1, now)
			c.Replied(c.Omit(rsp))
			c.Reject(rsp)
			c.Replied(nil)
		}); n > 0 {
			t.Errorf("%v: %v allocations", v, n)
		}
	}
}
