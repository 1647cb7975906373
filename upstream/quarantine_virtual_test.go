package upstream

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/quarantine"
)

// typeAsked returns the type of a request, and whether it is an answer.
func typeAsked(m proto.Message) (typeURL string, answer bool) {
	switch m := m.(type) {
	case *discoveryv3.DiscoveryRequest:
		return m.GetTypeUrl(), m.GetResponseNonce() != ""
	case *discoveryv3.DeltaDiscoveryRequest:
		return m.GetTypeUrl(), m.GetResponseNonce() != ""
	}
	return "", false
}

// answer responds to requests for a type.
func (s *wireStream) answer(typeURL string, size int, names ...string) {
	r := &resource.Response{Type: resource.TypeOf(typeURL), Version: "1", Nonce: "n", Size: size}
	for _, n := range names {
		r.Resources = append(r.Resources, resource.New(resource.Resource{Name: n, Body: []byte(n)}))
	}
	select {
	case s.toClient <- r:
	case <-s.ctx.Done():
	}
}

// strict serves clusters and the types that knows allows, and ends streams with an error of the
// code after a request for unknownType. It counts the streams that are open.
type strict struct {
	code  codes.Code
	open  atomic.Int64
	most  atomic.Int64
	asked atomic.Int64 // requests for unknownType
	knows atomic.Bool  // it supports unknownType now
}

func (o *strict) serve(s *wireStream) error {
	o.most.Store(max(o.most.Load(), o.open.Add(1)))
	defer o.open.Add(-1)
	for {
		m := s.recv()
		if m == nil {
			return nil
		}
		switch typeURL, answer := typeAsked(m); {
		case typeURL == unknownType && !o.knows.Load():
			o.asked.Add(1)
			return status.Error(o.code, "what is that?")
		case !answer:
			s.answer(typeURL, 0, "a")
		}
	}
}

// TestUnknownTypeIsAskedForAgain: a quarantined type is requested repeatedly, less and less often,
// since the control plane may support it later. The stream of the key stays open all the time, and
// when the type has its answer there is no other stream. This holds for every status code, and
// while no client wants the type it is not requested.
func TestUnknownTypeIsAskedForAgain(t *testing.T) {
	for _, code := range []codes.Code{codes.Unknown, codes.PermissionDenied, codes.Unavailable, codes.Internal, codes.ResourceExhausted} {
		t.Run(code.String(), func(t *testing.T) {
			variants(t, func(t *testing.T, delta bool) {
				o := &strict{code: code}
				w := newWire(o.serve)
				virtual(t, delta, w, func(r *rig) {
					good := r.join("k").want(cds, "a")
					bad := r.join("k").want(unknownType, "a")
					time.Sleep(time.Minute) //nolint:forbidigo // virtual time
					if lines := r.cp.Quarantined(); len(lines) != 1 || lines[0] != `"`+unknownType+`" of key "k"` {
						t.Fatalf("set apart is %q", lines)
					}
					before := len(w.opens())
					since := good.group.Upstream().Since
					time.Sleep(time.Hour) //nolint:forbidigo // virtual time
					gaps := w.opens()[before:]
					if len(gaps) < 10 || len(gaps) > 20 {
						t.Errorf("asked %d times in an hour", len(gaps))
					}
					for i := len(gaps) - 3; i < len(gaps); i++ {
						if gap := gaps[i].Sub(gaps[i-1]); gap < 4*time.Minute || gap > 6*time.Minute {
							t.Errorf("asked after %v, expected about %v", gap, quarantine.LastProbe)
						}
					}
					if up := good.group.Upstream(); !up.Connected || up.Since != since || o.open.Load() != 1 || o.most.Load() > 2 {
						t.Errorf("the stream is up %v since %v, expected since %v; %d are open, and were %d", up.Connected, up.Since, since, o.open.Load(), o.most.Load())
					}
					asked := o.asked.Load()
					bad.drop(unknownType, "a")
					time.Sleep(time.Hour) //nolint:forbidigo // virtual time
					if n := o.asked.Load() - asked; n > 1 || len(r.cp.Quarantined()) != 0 {
						t.Errorf("asked %d times although nobody wants it; set apart is %q", n, r.cp.Quarantined())
					}
					bad.want(unknownType, "a")
					o.knows.Store(true)
					time.Sleep(7 * time.Minute) //nolint:forbidigo // virtual time
					if got := bad.state(unknownType); got != "a" || o.open.Load() != 1 || len(r.cp.Quarantined()) != 0 {
						t.Errorf("the state is %q on %d streams; set apart is %q", got, o.open.Load(), r.cp.Quarantined())
					}
					if up := good.group.Upstream(); up.Since != since {
						t.Error("the key's stream has not stood")
					}
				})
			})
		})
	}
}

// TestRestartsQuarantineNothing: a control plane that restarts, once or repeatedly, before it has
// answered for a type does not make that type a suspect: it is never requested on a second stream.
func TestRestartsQuarantineNothing(t *testing.T) {
	const silent = unknownType
	for name, end := range map[string]error{
		"connection lost": status.Error(codes.Unavailable, "error reading from server: EOF"),
		"reset":           status.Error(codes.Internal, "stream terminated by RST_STREAM"),
		"drained":         status.Error(codes.Canceled, "draining"),
		"token":           status.Error(codes.Unauthenticated, "expired"),
	} {
		lost := status.Code(end) == codes.Unavailable
		for how, after := range map[string][]time.Duration{
			"a moment after":          {time.Second},
			"two moments after":       {time.Second, 2 * time.Second},
			"again and again":         slices.Repeat([]time.Duration{time.Second}, 12),
			"at length, twelve times": slices.Repeat([]time.Duration{10 * time.Second}, 12),
		} {
			if how == "again and again" && !lost {
				continue // then the server ends the streams, on a connection that stays open
			}
			t.Run(name+" "+how, func(t *testing.T) {
				variants(t, func(t *testing.T, delta bool) {
					var n, open, most atomic.Int64
					var w *wire
					w = newWire(func(s *wireStream) error {
						most.Store(max(most.Load(), open.Add(1)))
						defer open.Add(-1)
						i := int(n.Add(1)) - 1
						if lost {
							w.reconnect()
						}
						over := make(<-chan time.Time)
						if i < len(after) {
							over = time.After(after[i])
						}
						for {
							select {
							case m := <-s.fromClient:
								if typeURL, answer := typeAsked(m); typeURL == cds && !answer {
									s.respond("a")
								}
							case <-over:
								return end
							case <-s.ctx.Done():
								return nil
							}
						}
					})
					virtual(t, delta, w, func(r *rig) {
						c := r.join("k").want(cds, "a").want(silent, "x")
						for range 300 {
							time.Sleep(time.Second) //nolint:forbidigo // virtual time
							if lines := r.cp.Quarantined(); len(lines) > 0 {
								t.Fatalf("set apart is %q after %d streams", lines, n.Load())
							}
						}
						if most.Load() != 1 || int(n.Load()) != len(after)+1 || !c.group.Upstream().Connected {
							t.Errorf("%d streams at a time, %d in all", most.Load(), n.Load())
						}
					})
				})
			})
		}
	}
}

// TestNothingIsKnownYet: if no type was ever answered, the types are distinguished as well, also
// with a control plane that reads all requests before it answers any. One that accepts no stream
// gets at most two streams.
func TestNothingIsKnownYet(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		var open, most atomic.Int64
		w := newWire(func(s *wireStream) error {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			var types []string
			for {
				select {
				case m := <-s.fromClient:
					typeURL, answer := typeAsked(m)
					if typeURL == unknownType {
						return status.Error(codes.NotFound, "what is that?")
					}
					if !answer {
						types = append(types, typeURL)
					}
				case <-time.After(100 * time.Millisecond):
					for _, typeURL := range types {
						s.answer(typeURL, 0, "a")
					}
					types = nil
				case <-s.ctx.Done():
					return nil
				}
			}
		})
		virtual(t, delta, w, func(r *rig) {
			c := r.join("k").want(unknownType, "a").want(cds, "a").want(eds, "a").want(lds, "a")
			time.Sleep(30 * time.Second) //nolint:forbidigo // virtual time
			for _, typeURL := range []string{cds, eds, lds} {
				if got := c.state(typeURL); got != "a" {
					t.Errorf("of %s the state is %q", typeURL, got)
				}
			}
			if !c.group.Upstream().Connected || len(r.cp.Quarantined()) != 1 || most.Load() > 2 {
				t.Errorf("connected is %v, set apart %q, there were %d streams", c.group.Upstream().Connected, r.cp.Quarantined(), most.Load())
			}
		})
	})
}

// TestSilentOnItsOwnStream: a type about which the control plane is silent on the probe stream
// moves to the main stream, and missing names are absent as always (C12).
func TestSilentOnItsOwnStream(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		o := &strict{code: codes.Unknown}
		w := newWire(func(s *wireStream) error {
			for {
				m := s.recv()
				switch typeURL, answer := typeAsked(m); {
				case m == nil:
					return nil
				case typeURL == unknownType && o.asked.Add(1) == 1:
					return status.Error(codes.Unknown, "not now")
				case typeURL == cds && !answer:
					s.respond("a")
				}
			}
		})
		virtual(t, delta, w, func(r *rig) {
			c := r.join("k").want(cds, "a")
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			c.want(unknownType, "x")
			time.Sleep(time.Second / 2) //nolint:forbidigo // virtual time
			if len(r.cp.Quarantined()) != 1 {
				t.Fatal("it is not set apart")
			}
			time.Sleep(10 * time.Second) //nolint:forbidigo // virtual time
			if got := c.state(unknownType); got != "" || len(r.cp.Quarantined()) != 0 {
				t.Fatalf("the state is %q; set apart is %q", got, r.cp.Quarantined())
			}
			time.Sleep(15 * time.Second) //nolint:forbidigo // virtual time
			if got := c.state(unknownType); got != "-x" || len(w.opens()) != 3 {
				t.Fatalf("the state is %q after %d streams", got, len(w.opens()))
			}
		})
	})
}

// TestLargeAnswerOnItsOwnStream: an answer of several frames is received completely before the type
// moves to the main stream, where the control plane has nothing to add (K13).
func TestLargeAnswerOnItsOwnStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		w := newWire(func(s *wireStream) error {
			for {
				m := s.recv()
				switch typeURL, answer := typeAsked(m); {
				case m == nil:
					return nil
				case typeURL == eds && !answer:
					switch asked.Add(1) {
					case 1:
						return status.Error(codes.Unknown, "not now")
					case 2:
						s.answer(eds, 2*largeFrame, "a")
					}
				case typeURL == cds && !answer:
					s.respond("a")
				}
			}
		})
		virtual(t, true, w, func(r *rig) {
			c := r.join("k").want(cds, "a").want(eds, "*")
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			if c.table(eds).State(c.watcher(eds)).Wildcard != cache.WildcardKnown || len(r.cp.Quarantined()) != 0 {
				t.Errorf("the set is not known after %d requests; set apart is %q", asked.Load(), r.cp.Quarantined())
			}
		})
	})
}

// TestEvidencePoints: the evidence of an ended stream against the types that it requested.
func TestEvidencePoints(t *testing.T) {
	say := func(c codes.Code) error { return fmt.Errorf("the stream ended: %w", status.Error(c, "x")) }
	for i, step := range []struct {
		end  ending
		want int
	}{
		{ending{opened: true, responded: true, err: say(codes.Unknown)}, quarantine.Proof},
		{ending{opened: true, responded: true, err: say(codes.PermissionDenied)}, quarantine.Proof},
		{ending{opened: true, responded: true, err: say(codes.Unavailable)}, quarantine.Weak},
		{ending{opened: true, err: say(codes.Unknown)}, quarantine.Strong},
		{ending{opened: true, err: say(codes.Unavailable)}, 0},
		{ending{opened: true, err: say(codes.PermissionDenied)}, 0},
		{ending{err: say(codes.Unknown)}, 0},
		{ending{opened: true, responded: true, ours: true, err: errRenewed}, 0},
		{ending{opened: true, responded: true, err: fmt.Errorf("the stream ended: %w", io.EOF)}, 0},
	} {
		if got := step.end.points(); got != step.want {
			t.Errorf("step %d: %d, expected %d", i, got, step.want)
		}
	}
}

// TestQuarantinedTypesAreListed: of many types only some are listed, in a fixed order.
func TestQuarantinedTypesAreListed(t *testing.T) {
	j := &journal{}
	for i := range maxListed + 5 {
		j.setQuarantined(fmt.Sprintf("k%02d", i), unknownType, true)
	}
	if lines := j.quarantinedLines(); len(lines) != maxListed+1 || !strings.Contains(lines[0], "k00") || lines[maxListed] != "and 5 more" {
		t.Errorf("%q", lines)
	}
}
