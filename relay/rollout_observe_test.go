package relay_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// spoken has all messages of the streams of some clients, and of the relay to its control plane, in their order.
type spoken struct {
	mu   sync.Mutex
	said map[string][]string // guarded by mu; by stream
}

func (w *spoken) add(stream, way string, m any) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.(proto.Message))
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said[stream] = append(w.said[stream], way+" "+hex.EncodeToString(b))
}

// of makes a client's streams be recorded.
func (w *spoken) of(name string) grpc.DialOption {
	streams := 0
	return grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := streamer(ctx, desc, cc, method, opts...)
		streams++
		return &recordedStream{s, w, fmt.Sprint(name, " ", streams)}, err
	})
}

// recordedStream is a stream of a client that is recorded.
type recordedStream struct {
	grpc.ClientStream

	into *spoken
	name string
}

func (s *recordedStream) SendMsg(m any) error {
	s.into.add(s.name, "sent", m)
	return s.ClientStream.SendMsg(m)
}

func (s *recordedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.into.add(s.name, "got", m)
	}
	return err
}

// TestObserveSaysTheSame: with a policy that observes, each stream of clients and of the control plane has the
// same bytes in the same order as without a policy: for revisions that clients accept and reject, removals,
// endpoints, and clients that connect, disconnect and come back in the middle of it. A policy that holds back
// does differ, so the comparison sees something.
func TestObserveSaysTheSame(t *testing.T) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run(string(variant), func(t *testing.T) {
			without := conversation(t, variant, "")
			if len(without) < 7 {
				t.Fatalf("%d streams were recorded", len(without))
			}
			with := conversation(t, variant, "observe")
			for _, stream := range slices.Sorted(maps.Keys(without)) {
				was, is := without[stream], with[stream]
				for i := range max(len(was), len(is)) {
					if i >= len(was) || i >= len(is) || was[i] != is[i] {
						t.Errorf("%s: message %d of %d differs: without a policy %q, with one that observes %q", stream, i, len(was), at(was, i), at(is, i))
						break
					}
				}
			}
			if len(with) != len(without) {
				t.Errorf("%d streams with a policy that observes, %d without", len(with), len(without))
			}
			if held := conversation(t, variant, "automatic"); maps.EqualFunc(held, without, slices.Equal[[]string]) {
				t.Error("a policy that holds back makes no difference")
			}
		})
	}
}

func at(all []string, i int) string {
	if i >= len(all) {
		return "nothing"
	}
	return all[i]
}

// conversation is what a relay and its clients say with a policy of a mode, in virtual time; an empty mode is
// no policy.
func conversation(t *testing.T, variant config.Variant, mode config.RolloutMode) (said map[string][]string) {
	t.Helper()
	w := &spoken{said: make(map[string][]string)}
	synctest.Test(t, func(t *testing.T) {
		memory := xdstest.NewMemory()
		origin := memory.NewStateOrigin(t, (*corev3.Node).GetCluster)
		s := &staged{t: t, origin: origin}
		origin.Watch(func(e xdstest.Event) {
			if e.Request != nil {
				w.add(fmt.Sprint("upstream ", e.Stream), "sent", e.Request.Raw)
			}
		})
		origin.Set("demo", s.revision("a")...)
		node, stop := startOn(t, memory, func(cfg *config.Config) {
			cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{origin.Addr()}, variant
			cfg.LastKnownGood.Store, cfg.LastKnownGood.Directory = config.StoreDirectory, t.TempDir()
			cfg.Aggregation.Rules = []aggregation.Rule{{Name: "web", Key: "node.cluster"}}
			if mode != "" {
				policy := quickPolicy()
				policy.Mode = mode
				cfg.Rollout.Policies = []config.RolloutPolicy{policy}
				cfg.Aggregation.Rules[0].Rollout = "mine"
			}
		})
		defer stop()
		settle := func() {
			time.Sleep(20 * time.Second) //nolint:forbidigo // virtual time
			synctest.Wait()
		}
		join := func(id string, delta bool, nack func(*xdstest.Frame) string) *xdstest.Auto {
			n := xdstest.Node(id, "demo")
			c := xdstest.StartAuto(t, xdstest.AutoConfig{
				Addr: node.Addr(), Node: n, Variant: xdstest.Variant{Delta: delta}, Nack: nack,
				DialOptions: []grpc.DialOption{memory.Option(), w.of(id)},
			})
			for _, of := range []struct {
				typ   string
				names []string
			}{{xdstest.ClusterType, nil}, {xdstest.ListenerType, nil}, {xdstest.RouteType, []string{"r"}}, {xdstest.EndpointType, []string{"a"}}} {
				c.Subscribe(of.typ, of.names...)
				synctest.Wait()
			}
			settle()
			return c
		}
		join("sotw", false, rejectPoison)
		join("delta", true, rejectPoison)
		brave := join("brave sotw", false, nil)
		other := join("brave delta", true, nil)
		origin.Set("demo", s.revision("b")...)
		settle()
		origin.Set("demo", append(s.revision("poison"), xdstest.Cluster("c", time.Second))...)
		time.Sleep(500 * time.Millisecond) //nolint:forbidigo // virtual time
		join("late", true, rejectPoison)
		brave.Reconnect()
		synctest.Wait()
		origin.Remove("demo", xdstest.ClusterType, "poison", "c")
		settle()
		origin.Set("demo", s.revision("b")...)
		origin.Set("demo", xdstest.Endpoints("a", "127.0.0.2:1"))
		settle()
		other.Reconnect()
		synctest.Wait()
		origin.Remove("demo", xdstest.ListenerType, "l")
		settle()
		origin.Set("demo", s.revision("d")...)
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // virtual time
		origin.Set("demo", s.revision("b")...)
		settle()
		w.mu.Lock()
		said = maps.Clone(w.said)
		w.mu.Unlock()
	})
	return said
}

// TestObserve: a policy that observes reports what would have become of each revision, while all clients get it
// at once and nothing counts as held.
func TestObserve(t *testing.T) {
	variants(t, func(t *testing.T, variant config.Variant) {
		s := stage(t, variant, 10, func(p *config.RolloutPolicy) { p.Mode = "observe" })
		s.origin.Set("demo", s.revision("b")...)
		s.all("the revision", s.has("b"))
		xdstest.Eventually(t, "the revision would be good", func() bool {
			is := s.status()
			return is.State == "Idle" && is.Good != ""
		})
		if is := s.status(); is.Mode != "observe" || is.Role != "observing" || len(is.History) != 7 || !is.History[0].Observed {
			t.Errorf("%+v", is)
		}
		s.origin.Set("demo", s.revision("poison")...)
		is := s.waitState("Held")
		xdstest.Eventually(t, "all clients to reject it", func() bool {
			is = s.status()
			return is.Observed != nil && is.Observed.Rejected == 10
		})
		if len(is.Rejections) == 0 || len(is.Refused) != 1 || !slices.Equal(is.Rejections[0].Resources, []string{"poison"}) {
			t.Errorf("held: %+v", is)
		}
		s.all("the revision that would be refused", func(c *xdstest.Auto) bool {
			return strings.Contains(string(c.Held(xdstest.RouteType)["r"].Body), "poison")
		})
		_, text := s.get(t, "/api/v1/rollout")
		if !strings.Contains(text, `"state": "observed"`) || !strings.Contains(text, `"pending": []`) {
			t.Errorf("status: %s", text)
		}
		if _, text := s.get(t, "/metrics"); !strings.Contains(text, `xdsrelay_rollout_observed_ended_total{outcome="failed"} 1`) ||
			!strings.Contains(text, `xdsrelay_rollout_observed_ended_total{outcome="good"} 1`) || !strings.Contains(text, `xdsrelay_rollout_observed_verdicts_total{outcome="fail",signal="nacks"} 1`) ||
			!strings.Contains(text, `xdsrelay_rollout_ended_total{outcome="failed"} 0`) || !strings.Contains(text, `xdsrelay_rollout_active{state="held"} 0`) {
			t.Errorf("metrics: %s", text)
		}
		s.order("approve", http.StatusConflict)
		s.order("freeze", http.StatusOK)
		s.order("unfreeze", http.StatusOK)
		s.origin.Remove("demo", xdstest.ClusterType, "poison")
		s.origin.Set("demo", s.revision("b")...)
		s.all("what the control plane sends instead", s.has("b"))
		s.waitState("Idle")
		s.check()
	})
}
