package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/config"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/xdstest"
)

// upstreamNACK is a NACK that a control plane gets.
type upstreamNACK struct{ typeURL, nonce, text string }

// nackLog are the NACKs of a control plane, and the newest nonce of each type that had a reply.
type nackLog struct {
	mu  sync.Mutex
	all []upstreamNACK
}

func (l *nackLog) note(_ int64, m proto.Message) {
	r, ok := m.(interface {
		GetTypeUrl() string
		GetResponseNonce() string
		GetErrorDetail() *status.Status
	})
	if !ok || r.GetErrorDetail() == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, upstreamNACK{r.GetTypeUrl(), r.GetResponseNonce(), r.GetErrorDetail().GetMessage()})
}

func (l *nackLog) list() []upstreamNACK {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// TestPolicyUpstream: K1, K2: a real control plane gets one NACK of what canaries reject, with the resource, the
// reason, and how many clients are affected, whether the relay waits for scouts or has sent the ACK. A second
// bad revision has one of its own, and the fix after it reaches all clients.
func TestPolicyUpstream(t *testing.T) {
	for _, answer := range []rollout.Answer{rollout.AfterScouts, rollout.AtOnce} {
		for _, variant := range []config.Variant{config.SotW, config.Delta} {
			for name, cp := range realControlPlanes(t) {
				t.Run(fmt.Sprintf("%s/%s/%s", answer, variant, name), func(t *testing.T) {
					var nacks nackLog
					cp.OnRequest(nacks.note)
					s := &staged{t: t, config: testConfig()}
					cp.set("1", s.revision("a")...)
					s.begin(cp.Addr(), variant, 10, func(p *config.RolloutPolicy) {
						p.Upstream.Answer = config.RolloutAnswer(answer)
						p.Settle.Quiet = 400 * time.Millisecond // the linear caches send each type by itself
					})
					var held string
					for i, bad := range []string{"poison", "poison too"} {
						cp.set(fmt.Sprint(2+i), append(s.revision("poison"), xdstest.Cluster(bad, 0), xdstest.Endpoints(bad, "127.0.0.1:1"))...)
						xdstest.Eventually(t, "the key is held", func() bool {
							is := s.status()
							if is.State != "Held" || is.Revision == held || len(is.Rejections) == 0 {
								return false
							}
							held = is.Revision
							return true
						})
						xdstest.Eventually(t, "a NACK", func() bool { return len(nacks.list()) == i+1 })
						n := nacks.list()[i]
						if n.typeURL != xdstest.ClusterType || n.nonce == "" || !strings.HasPrefix(n.text, "poison: cluster poison: it is poison; ") ||
							!strings.Contains(n.text, " of 2 canaries rejected it; rolled back; 8 other clients are not affected ("+held+")") {
							t.Errorf("the control plane got %+v", n)
						}
						if _, text := s.get(t, "/debug/check"); !strings.Contains(text, "ok") {
							t.Error(text)
						}
					}
					if linear := cp.Linear; linear != nil {
						cp.RemoveLinear(t, xdstest.ClusterType, "poison", "poison too")
					}
					cp.set("4", s.revision("b")...)
					s.all("the fix", s.has("b"))
					if got := nacks.list(); len(got) != 2 {
						t.Errorf("NACKs %+v", got)
					}
					for _, c := range s.clients {
						if s.has("poison")(c) {
							t.Errorf("a client has kept what it rejected: %s", c)
						}
						c.CheckViolations(t)
					}
					if n := cp.Counts().Requests; n > 100 {
						t.Errorf("%d requests: %s", n, cp.Transcript())
					}
				})
			}
		}
	}
}
