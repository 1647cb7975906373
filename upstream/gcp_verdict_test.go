package upstream

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// complaints are the NACKs that a control plane gets.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) note(_ int64, m proto.Message) {
	r, ok := m.(interface {
		GetTypeUrl() string
		GetErrorDetail() *status.Status
	})
	if !ok || r.GetErrorDetail() == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, r.GetErrorDetail().GetMessage())
}

func (c *complaints) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.all))
}

// TestRealControlPlaneGetsOneNACK: K1, K2: a real go-control-plane server, with snapshots or with linear
// caches behind a mux, gets one NACK of each type that canaries reject, whether the ACK waits for them or was sent. It
// says nothing more for an hour, and neither does the relay: no loop. The next revision arrives: no stall.
func TestRealControlPlaneGetsOneNACK(t *testing.T) {
	for name, linear := range map[string]bool{"snapshot": false, "linear": true} {
		for _, wait := range []time.Duration{0, 900 * time.Millisecond} {
			t.Run(fmt.Sprint(name, "/", wait), func(t *testing.T) {
				variants(t, func(t *testing.T, delta bool) {
					cp, set := controlPlane(t, linear)
					var nacks complaints
					cp.OnRequest(nacks.note)
					set(1)
					c := newRig(t, fast(delta, cp.Addr())).join("k").want(cds, "*").want(eds, "e").want(rds, "r")
					c.waitState(cds, "a b")
					c.waitState(rds, "r")
					c.waitState(eds, "e")
					c.group.Govern(&cache.Governor{Types: map[string]bool{cds: true, rds: true}, Wait: wait, Changed: func(*cache.Group) {}})
					for salt := 2; salt <= 4; salt++ { // twice in a row, and then a good one
						set(salt)
						time.Sleep(10 * time.Millisecond) //nolint:forbidigo // virtual time
						o := c.group.CutOverlay()
						if salt == 4 {
							o.Judge(cache.VerdictPasses, nil)
							c.group.Promote(o, cache.CausePromoted)
							break
						}
						o.Judge(cache.VerdictFails, func(typ *resource.Type) string { return strings.TrimPrefix(path.Ext(typ.URL), ".") + " is bad" })
						xdstest.Eventually(t, "a NACK of each type", func() bool { return cp.Counts().Nacks == 2*(salt-1) })
						time.Sleep(time.Second) //nolint:forbidigo // virtual time
						before := cp.Counts()
						time.Sleep(time.Hour) //nolint:forbidigo // virtual time
						if after := cp.Counts(); after != before {
							t.Errorf("in the hour after the NACK: %+v, before %+v: %q\n%s", after, before, nacks.sorted(), cp.Transcript())
						}
					}
					xdstest.Eventually(t, "the good revision", func() bool {
						return string(c.bodies(cds)["a"]) == string(marshal(t, cluster("a", 4)))
					})
					time.Sleep(time.Hour) //nolint:forbidigo // virtual time
					want := []string{"Cluster is bad", "Cluster is bad", "RouteConfiguration is bad", "RouteConfiguration is bad"}
					if got := nacks.sorted(); !slices.Equal(got, want) {
						t.Errorf("NACKs %q, expected %q", got, want)
					}
				})
			})
		}
	}
}
