package upstream

import (
	"maps"
	"math"
	"testing"
	"testing/synctest"
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"xdsrelay/relay/xdstest"
)

// virtualLoad runs f in virtual time with a rig over w, with the default times.
func virtualLoad(t xdstest.TB, w *loadWire, f func(r *loadRig)) {
	cp, err := newControlPlane(ControlPlaneConfig{Addresses: []string{"nowhere"}},
		func(string, *ControlPlaneConfig) (channel, error) { return w, nil })
	if err != nil {
		t.Fatalf("%v", err)
	}
	r := newLoadRigOf(t, cp, time.Minute)
	f(r)
	r.Close()
}

// TestLoadBackoff: C13: streams that end without a response, or with UNIMPLEMENTED, are opened
// again at the pace of all streams.
func TestLoadBackoff(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.Unimplemented} {
		synctest.Test(t, func(t *testing.T) {
			w := newLoadWire(func(s *loadWireStream) error {
				s.recv()
				return status.Error(code, "no")
			})
			virtualLoad(t, w, func(r *loadRig) {
				r.join("k")
				time.Sleep(time.Hour) //nolint:forbidigo // virtual time
				opens := w.opens()
				if len(opens) < 30 {
					t.Fatalf("%v: %d streams in an hour", code, len(opens))
				}
				for i := 1; i < len(opens); i++ {
					want := math.Min(math.Pow(1.6, float64(i-1)), 30)
					if gap := opens[i].Sub(opens[i-1]).Seconds(); gap < 0.79*want || gap > 1.21*want {
						t.Errorf("%v: gap %d is %.2f s, expected %.2f s ±20 %%", code, i, gap, want)
					}
				}
			})
		})
	}
}

// TestLoadInterval: reports are sent at the requested interval, the first slightly later than those
// of the clients. A control plane that repeats its request with every report changes nothing; one
// that requests another interval starts that.
func TestLoadInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		w := newLoadWire(func(s *loadWireStream) error {
			s.recv()
			start := time.Now()
			s.ask(xdstest.LoadTerms(10 * time.Second))
			for s.recv() != nil {
				at = append(at, time.Since(start))
				switch len(at) {
				case 3:
					s.ask(xdstest.LoadTerms(time.Minute))
				case 4:
				default:
					if len(at) < 3 {
						s.ask(xdstest.LoadTerms(10 * time.Second))
					}
				}
			}
			return nil
		})
		virtualLoad(t, w, func(r *loadRig) {
			r.join("k")
			time.Sleep(3 * time.Minute) //nolint:forbidigo // virtual time
			synctest.Wait()
			for i, want := range []int{11, 21, 31, 31 + 61, 31 + 121} {
				if i >= len(at) || at[i] != time.Duration(want)*time.Second {
					t.Fatalf("reports after %v, expected the one of number %d after %d s", at, i, want)
				}
			}
		})
	})
}

// TestLoadNothingLost: whatever clients report, and however often the control plane ends the
// stream, the sum of what was sent and what is left is what was reported.
func TestLoadNothingLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			reports, rest int
			cut           bool
		}
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			return step{rapid.IntRange(0, 3).Draw(t, "reports"), rapid.IntRange(0, 15).Draw(t, "seconds"), rapid.Bool().Draw(t, "cut")}
		}), 1, 20).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			var sent []*lrsv3.LoadStatsRequest
			cut := make(chan struct{})
			w := newLoadWire(func(s *loadWireStream) (err error) {
				s.recv()
				s.ask(xdstest.LoadTerms(10 * time.Second))
				defer func() {
					s.mu.Lock()
					s.over = true
					s.mu.Unlock()
					for len(s.fromClient) > 0 { // sent on a stream that failed
						sent = append(sent, <-s.fromClient)
					}
				}()
				for {
					select {
					case m := <-s.fromClient:
						if m == nil {
							return nil
						}
						sent = append(sent, m)
					case <-cut:
						return status.Error(codes.Unavailable, "cut")
					case <-s.ctx.Done():
						return nil
					}
				}
			})
			reported := make(map[string]uint64)
			virtualLoad(t, w, func(r *loadRig) {
				c := r.join("k")
				for _, st := range steps {
					for range st.reports {
						c.issued("z", 1, 1)
						reported["z"]++
					}
					time.Sleep(time.Duration(st.rest) * time.Second) //nolint:forbidigo // virtual time
					synctest.Wait()
					if !st.cut {
						continue
					}
					select {
					case cut <- struct{}{}:
					default: // there is no stream now
					}
				}
				time.Sleep(time.Minute) //nolint:forbidigo // virtual time
				c.Leave()
			})
			synctest.Wait()
			if got := totals(sent...); !maps.Equal(got, reported) {
				rt.Fatalf("sent %v, reported %v", got, reported)
			}
		})
	})
}

// TestLoadGivesBack: a report that could not be sent because the stream had ended is part of the
// next one.
func TestLoadGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []map[string]uint64
		streams := 0
		w := newLoadWire(func(s *loadWireStream) error {
			s.recv()
			s.ask(xdstest.LoadTerms(10 * time.Second))
			if streams++; streams == 1 {
				// The stream has ended for sending, but the client is not notified before a report
				// was due.
				s.mu.Lock()
				s.over = true
				s.mu.Unlock()
				time.Sleep(15 * time.Second) //nolint:forbidigo // virtual time
				return status.Error(codes.Unavailable, "gone")
			}
			for m := s.recv(); m != nil; m = s.recv() {
				got = append(got, totals(m))
			}
			return nil
		})
		virtualLoad(t, w, func(r *loadRig) {
			c := r.join("k")
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			c.issued("z", 5, 0)
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			synctest.Wait()
			if len(got) < 2 || got[0]["z"] != 5 || got[1]["z"] != 0 {
				t.Fatalf("reports %v, expected all in the first", got)
			}
		})
	})
}
