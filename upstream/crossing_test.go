package upstream

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestChangesThatCrossADrop: a change of content crosses an unsubscription from names or from the
// wildcard. Then go-control-plane counts all of these as subscribed again, also resources that did
// not change. A client that subscribes again still receives them (C9).
func TestChangesThatCrossADrop(t *testing.T) {
	for cache, linear := range map[string]bool{"snapshot": false, "linear": true} {
		for first, names := range map[string][]string{"names": {"a", "b"}, "wildcard": {"*"}} {
			for again, want := range map[string]string{"*": "a b", "a": "a"} {
				t.Run(cache+"/"+first+" then "+again, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						cross(t, linear, names, again, want, false)
					})
				})
				t.Run(cache+"/"+first+" then at once "+again, func(t *testing.T) {
					inBubble(t, func(t *testing.T) {
						cross(t, linear, names, again, want, true)
					})
				})
			}
		}
	}
}

// cross makes a client unsubscribe from names while cluster b changes, and then subscribe to want,
// at once or after the change has arrived.
func cross(t *testing.T, linear bool, names []string, again, want string, atOnce bool) {
	cp, set := controlPlane(t, linear)
	set(1)
	r := newRigOf(t, must(NewControlPlane(fast(true, cp.Addr()))), -1)
	r.join("k").want(eds, "e").waitState(eds, "e") // keeps the stream
	c := r.join("k").want(cds, names...)
	c.waitState(cds, "a b")
	crossed := make(chan struct{})
	var once sync.Once
	cp.OnRequest(func(_ int64, m proto.Message) {
		if len(m.(*discoveryv3.DeltaDiscoveryRequest).GetResourceNamesUnsubscribe()) == 0 {
			return
		}
		once.Do(func() {
			changeB(t, cp, linear)
			if atOnce {
				c.want(cds, again)
			}
			close(crossed)
		})
	})
	answered := cp.Counts().Responses
	c.drop(cds, names...)
	<-crossed
	if !atOnce {
		xdstest.Eventually(t, "the change", func() bool { return cp.Counts().Responses > answered })
		c.want(cds, again)
	}
	c.waitState(cds, want)
}

// changeB changes the content of cluster b of controlPlane.
func changeB(t *testing.T, cp *xdstest.ControlPlane, linear bool) {
	t.Helper()
	if linear {
		cp.SetLinear(t, cluster("b", 2))
		return
	}
	cp.SetSnapshot(t, "k", "2", cluster("a", 1), cluster("b", 2), endpoints("e", 1))
}

// TestRemovalDuringAReturnToTheWildcard: a response crosses the end of a wildcard subscription and
// its return, and the server removes a resource of that response before it reads either. The server
// then forgets that the relay has the resource, so neither its answer to the return nor any later
// response reports the removal (C9).
func TestRemovalDuringAReturnToTheWildcard(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cp := memory.NewLenientControlPlane(t, nil)
		set := func(version string, clusters ...proto.Message) {
			cp.SetSnapshot(t, "k", version, append(clusters, endpoints("e", 1))...)
		}
		set("1", cluster("a", 1), cluster("b", 1))
		network := memory.NewNetwork(t, cp.Addr())
		r := newRigOf(t, must(NewControlPlane(fast(true, network.Addr()))), -1)
		r.join("k").want(eds, "e").waitState(eds, "e") // keeps the stream
		c := r.join("k").want(cds, "*")
		c.waitState(cds, "a b")

		arrives := func(what string, count func(xdstest.Counts) int, do func()) {
			t.Helper()
			before := count(cp.Counts())
			do()
			xdstest.Eventually(t, what, func() bool { return count(cp.Counts()) > before })
		}
		requests := func(n xdstest.Counts) int { return n.Requests }
		responses := func(n xdstest.Counts) int { return n.Responses }
		synctest.Wait() // all responses are acknowledged
		network.Stall(xdstest.ToClient)
		arrives("a change of b", responses, func() { set("2", cluster("a", 1), cluster("b", 2)) })
		set("3", cluster("a", 1)) // not sent before the ACK of 2
		arrives("the end of the subscription", requests, func() { c.drop(cds, "*") })
		c.want(cds, "*")
		synctest.Wait()
		network.Stall(0)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if got := c.state(cds); got != "a" {
			t.Errorf("the relay has %q, the control plane %q", got, "a")
		}
	})
}
