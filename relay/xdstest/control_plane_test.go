package xdstest

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdsclient"
)

// TestScriptedClientAgainstControlPlane: the scripted client speaks what a real
// server understands, in every variant.
func TestScriptedClientAgainstControlPlane(t *testing.T) {
	for _, v := range Variants(ClusterType) {
		t.Run(v.String(), func(t *testing.T) {
			cp := NewControlPlane(t, nil)
			cp.SetSnapshot(t, "test-cluster", "1", Cluster("a", time.Second), Cluster("b", time.Second))
			s := Dial(t, cp.Addr()).Open(v)
			s.Subscribe(ClusterType)
			f := s.Recv(t)
			if xdsclient.Brief(f.Names()) != "[a b]" || f.Nonce == "" || f.Version != "1" {
				t.Fatalf("first frame: %s", f)
			}
			s.Ack(f)
			s.Quiet(t, short)

			cp.SetSnapshot(t, "test-cluster", "2", Cluster("a", 2*time.Second))
			f = s.Recv(t)
			if xdsclient.Brief(f.Names()) != "[a]" || v.Delta && xdsclient.Brief(f.Removed) != "[b]" {
				t.Fatalf("second frame: %s", f)
			}
			s.Ack(f)
			s.Quiet(t, short)
			if c := cp.Counts(); c.Streams != 1 || c.Open != 1 || c.Requests != 3 || c.Responses != 2 || c.Nacks != 0 {
				t.Fatalf("counts: %+v", c)
			}
		})
	}
}

// controlPlaneWorld is either kind of control plane, seen alike.
type controlPlaneWorld struct {
	*ControlPlane
	set func(t TB, version int, resources ...proto.Message)
}

func controlPlanes(t TB) map[string]controlPlaneWorld {
	snapshots, linear := NewControlPlane(t, nil), NewLinearControlPlane(t)
	return map[string]controlPlaneWorld{
		"snapshot": {snapshots, func(t TB, version int, rs ...proto.Message) {
			snapshots.SetSnapshot(t, "test-cluster", fmt.Sprint(version), rs...)
		}},
		"linear": {linear, func(t TB, _ int, rs ...proto.Message) { linear.SetLinear(t, rs...) }},
	}
}

// TestAutoAgainstControlPlane: an automatic client follows a real server, also
// through its restart, in every variant.
func TestAutoAgainstControlPlane(t *testing.T) {
	for kind, cp := range controlPlanes(t) {
		for _, typeURL := range []string{ClusterType, EndpointType, SecretType} {
			for _, v := range Variants(typeURL) {
				t.Run(kind+"/"+xdsclient.ShortType(typeURL)+"/"+v.String(), func(t *testing.T) {
					holds := func(a *Auto, salts ...int) func() bool {
						return func() bool {
							held := a.Held(typeURL)
							for i, salt := range salts {
								name := fmt.Sprintf("r%d", i)
								if string(held[name].Body) != string(Any(Synthetic(typeURL, name, salt)).GetValue()) {
									return false
								}
							}
							return len(held) == len(salts)
						}
					}
					cp.set(t, 1, Synthetic(typeURL, "r0", 1), Synthetic(typeURL, "r1", 1))
					a := StartAuto(t, AutoConfig{Addr: cp.Addr(), Variant: v})
					a.Subscribe(typeURL, "r0", "r1")
					a.WaitFor(t, "the first state", holds(a, 1, 1))
					cp.set(t, 2, Synthetic(typeURL, "r0", 2), Synthetic(typeURL, "r1", 1))
					a.WaitFor(t, "the second state", holds(a, 2, 1))
					if err := cp.Restart(); err != nil {
						t.Fatal(err)
					}
					cp.set(t, 3, Synthetic(typeURL, "r0", 2), Synthetic(typeURL, "r1", 3))
					a.WaitFor(t, "the state after a restart", holds(a, 2, 3))
					if s := a.Stats(); s.Streams < 2 || s.Nacks != 0 {
						t.Errorf("stats: %+v", s)
					}
					a.CheckViolations(t)
				})
			}
		}
	}
}
