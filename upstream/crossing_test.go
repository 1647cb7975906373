package upstream

import (
	"sync"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestChangesThatCrossADrop: a change of content that crosses the drop of names,
// or of the wildcard, makes go-control-plane take all that was dropped for held
// again, also what the change does not concern. Whoever wants it again gets it
// all the same (C9).
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

// cross has a client drop names while cluster b changes, and then want again, at
// once or after the change has come.
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

// changeB gives cluster b of controlPlane other content.
func changeB(t *testing.T, cp *xdstest.ControlPlane, linear bool) {
	t.Helper()
	if linear {
		cp.SetLinear(t, cluster("b", 2))
		return
	}
	cp.SetSnapshot(t, "k", "2", cluster("a", 1), cluster("b", 2), endpoints("e", 1))
}
