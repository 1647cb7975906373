package fanout

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

var errGone = errors.New("gone")

// refuse applies an error in place of a resource.
func (w *world) refuse(typeURL, name string, code int32) {
	w.t.Helper()
	w.origin().Apply(cache.Update{Type: resource.TypeOf(typeURL), Errors: []resource.About{resource.NewError(name, code, "no")}})
}

// hears fails the test unless the frame holds just an error of name.
func hears(t xdstest.TB, f *xdstest.Frame, name string, code int32) *xdstest.Frame {
	t.Helper()
	if len(f.Errors) != 1 || f.Errors[0].GetResourceName().GetName() != name || f.Errors[0].GetErrorDetail().GetCode() != code {
		t.Fatalf("expected the error %d of %q: %v", code, name, f)
	}
	return f
}

// TestNotFound: K8, D6: delta clients get the removal and the error, SotW clients
// of a type without a full state the error alone; each once, and later ones too.
func TestNotFound(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(rds, "z", "r")
		w.asked(rds, "z", "r")
		w.change(rds, nil, route("r", "a"))
		s.Ack(has(t, s.Recv(t), "r"))
		w.refuse(rds, "z", resource.CodeNotFound)
		var removed []string
		if delta {
			removed = []string{"z"}
		}
		s.Ack(hears(t, hasRemoved(t, s.Recv(t), removed), "z", resource.CodeNotFound))
		w.refuse(rds, "z", resource.CodeNotFound)
		s.Quiet(t, short)
		late := w.open(delta)
		late.Subscribe(rds, "z")
		late.Ack(hears(t, hasRemoved(t, late.Recv(t), removed), "z", resource.CodeNotFound))
		w.change(rds, nil, route("z", "a"))
		for _, s := range []*xdstest.Stream{s, late} {
			if f := has(t, s.Recv(t), "z"); len(f.Errors) > 0 {
				t.Fatalf("an error beside the resource: %v", f)
			}
		}
	})
}

// TestPermissionDenied: K8: a full state is sent without the resource, and with the error; delta
// clients keep their copy as they please.
func TestPermissionDenied(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("b", 1), cluster("c", 1))
		s.Ack(has(t, s.Recv(t), "b", "c"))
		w.refuse(cds, "c", resource.CodePermissionDenied)
		if delta {
			s.Ack(hears(t, has(t, s.Recv(t)), "c", resource.CodePermissionDenied))
		} else {
			s.Ack(hears(t, has(t, s.Recv(t), "b"), "c", resource.CodePermissionDenied))
		}
		s.Quiet(t, short)
	})
}

// TestTransientErrors: C16, K8: an existing copy is still served. The error is sent by itself, and
// not at all if a full state has the copy.
func TestTransientErrors(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, code := range []int32{resource.CodeUnavailable, 13, 2, 4711} {
			w := newWorld(t)
			full, delta, sotw := w.open(false), w.open(true), w.open(false)
			full.Subscribe(cds)
			delta.Subscribe(eds, "a")
			sotw.Subscribe(eds, "a")
			w.asked(cds, "*")
			w.asked(eds, "a")
			w.serve("v1", cds, cluster("a", 1))
			w.change(eds, nil, endpoints("a", 1))
			for _, s := range []*xdstest.Stream{full, delta, sotw} {
				s.Ack(has(t, s.Recv(t), "a"))
			}
			w.refuse(cds, "a", code)
			w.refuse(eds, "a", code)
			for _, s := range []*xdstest.Stream{delta, sotw} {
				s.Ack(hears(t, has(t, s.Recv(t)), "a", code))
			}
			full.Quiet(t, short)
			late := w.open(true)
			late.Subscribe(eds, "a")
			f := late.Recv(t)
			if late.Ack(has(t, f, "a")); len(f.Errors) > 0 {
				t.Fatalf("an error beside the resource: %v", f)
			}
			hears(t, has(t, late.Recv(t)), "a", code)
		}
	})
}

// TestErrorIsTakenBack: C16, D15: a client remembers an error until the resource or a
// newer error comes. So when the origin sends the resource again, all who were sent the
// error get it, also with equal bytes and an equal version; and who comes later hears of
// no error.
func TestErrorIsTakenBack(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		delta, sotw := w.open(true), w.open(false)
		delta.Subscribe(eds, "a", "b")
		sotw.Subscribe(eds, "a", "b")
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Ack(has(t, s.Recv(t), "a", "b"))
		}
		w.refuse(eds, "a", resource.CodeUnavailable)
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Ack(hears(t, has(t, s.Recv(t)), "a", resource.CodeUnavailable))
		}
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		for _, s := range []*xdstest.Stream{delta, sotw} {
			f := s.Recv(t)
			if s.Ack(has(t, f, "a")); len(f.Errors) > 0 {
				t.Fatalf("an error beside the resource: %v", f)
			}
		}
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Quiet(t, short) // D15: nothing is to be taken back any more
		}
		late := w.open(true)
		late.Subscribe(eds, "a")
		f := late.Recv(t)
		if late.Ack(has(t, f, "a")); len(f.Errors) > 0 {
			t.Fatalf("an error that was taken back: %v", f)
		}
		late.Quiet(t, short)
	})
}

// TestErrorTakenBackMeanwhile: the same of a delta client that was away when the error was
// taken back, and comes back with what it holds: it still remembers the error (C16, B37).
func TestErrorTakenBackMeanwhile(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s, stays := w.open(true), w.open(true)
		for _, s := range []*xdstest.Stream{s, stays} {
			s.Subscribe(eds, "a", "b")
		}
		w.asked(eds, "a", "b")
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		for _, s := range []*xdstest.Stream{s, stays} {
			s.Ack(has(t, s.Recv(t), "a", "b"))
		}
		w.refuse(eds, "a", resource.CodeUnavailable)
		for _, s := range []*xdstest.Stream{s, stays} {
			s.Ack(hears(t, has(t, s.Recv(t)), "a", resource.CodeUnavailable))
		}
		s.Cancel()
		comeBack := func() *xdstest.Stream {
			s := w.open(true)
			s.Resume(eds, "", map[string]string{"a": version(t, endpoints("a", 1)), "b": version(t, endpoints("b", 1))}, "a", "b")
			return s
		}
		s = comeBack()
		s.Ack(hears(t, has(t, s.Recv(t)), "a", resource.CodeUnavailable)) // and not the resource with it
		s.Cancel()
		w.change(eds, nil, endpoints("a", 1), endpoints("b", 1))
		s = comeBack()
		s.Ack(has(t, s.Recv(t), "a"))
		s.Cancel()
		w.change(eds, nil, endpoints("a", 2))
		w.change(eds, nil, endpoints("a", 1))
		comeBack().Quiet(t, short) // a client that knows of the error holds the content from before it
	})
}

// backInAnOutage is a delta client that comes back with the endpoints "x", which the relay never had,
// while the control plane cannot be reached.
func backInAnOutage(t *testing.T) (*world, *xdstest.Stream) {
	t.Helper()
	w := newWorld(t, func(c *Config) { c.OriginTimeout = 2 * short })
	s := w.open(true)
	s.Subscribe(cds, "a")
	w.asked(cds, "a")
	w.change(cds, nil, cluster("a", 1))
	s.Ack(has(t, s.Recv(t), "a"))
	w.origin().Down(errGone)
	s.Resume(eds, "", map[string]string{"x": version(t, endpoints("x", 1))}, "x")
	return w, s
}

// TestErrorOfTheRelayIsTakenBack: the same of the relay's own error (K15), and of a delta
// client that came back with the version that the origin then sends.
func TestErrorOfTheRelayIsTakenBack(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w, s := backInAnOutage(t)
		s.Ack(hears(t, has(t, s.Recv(t)), "x", resource.CodeUnavailable))
		synctest.Wait() // the ACK counts: what comes is compared with what the client has claimed
		w.origin().Up()
		w.asked(eds, "x")
		w.change(eds, nil, endpoints("x", 1))
		s.Ack(has(t, s.RecvType(t, eds), "x"))

		s = w.open(true)
		s.Resume(eds, "", map[string]string{"y": version(t, endpoints("y", 1))}, "y")
		w.asked(eds, "x", "y")
		w.refuse(eds, "y", resource.CodeUnavailable)
		s.Ack(hears(t, has(t, s.Recv(t)), "y", resource.CodeUnavailable))
		w.change(eds, nil, endpoints("y", 1))
		s.Ack(has(t, s.Recv(t), "y"))

		w.origin().Down(errGone)
		s = w.open(true)
		s.Subscribe(cds, "a")
		s.Ack(has(t, s.Recv(t), "a"))
		s.Resume(eds, "", map[string]string{"z": version(t, endpoints("z", 1))}, "z")
		s.Ack(hears(t, has(t, s.RecvType(t, eds)), "z", resource.CodeUnavailable))
		s.Cancel()
		w.origin().Up()
		s = w.open(true) // it was away when the origin came back
		s.Resume(eds, "", map[string]string{"z": version(t, endpoints("z", 1))}, "z")
		w.change(eds, nil, endpoints("z", 1))
		s.Ack(has(t, s.Recv(t), "z"))
	})
}

// TestSilenceAfterAnErrorOfTheRelay: K14, K15: a delta client comes back with resources in an outage, and
// is sent errors. Then there is a stream to the control plane, which may be dead: its silence removes
// nothing from the client, and its answer does.
func TestSilenceAfterAnErrorOfTheRelay(t *testing.T) {
	for _, waits := range []bool{true, false} {
		t.Run(fmt.Sprintf("waits for the error: %t", waits), func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w, s := backInAnOutage(t)
				if waits {
					s.Ack(hears(t, has(t, s.Recv(t)), "x", resource.CodeUnavailable))
				}
				synctest.Wait()
				w.origin().Up()
				w.asked(eds, "x")
				w.origin().Absent(resource.TypeOf(eds), []string{"x"})
				s.Quiet(t, short)
				w.change(eds, []string{"x"})
				s.Ack(hasRemoved(t, s.RecvType(t, eds), []string{"x"}))
				s.Quiet(t, short)
			})
		})
	}
}

// TestErrorsWhileHeld: B14, K8: errors are sent to a client that rejected a response, and the
// rejected content is not sent with them.
func TestErrorsWhileHeld(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(eds, "a", "z")
		w.asked(eds, "a", "z")
		w.change(eds, nil, endpoints("a", 1))
		s.Nack(has(t, s.Recv(t), "a"), "no")
		w.settled(eds, Nacked)
		w.refuse(eds, "z", resource.CodeUnavailable)
		s.Ack(hears(t, has(t, s.Recv(t)), "z", resource.CodeUnavailable))
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		has(t, s.Recv(t), "a")
	})
}

// TestErrorsWhileAFullStateIsHeld: B14, K8: a client that rejected a full state is sent no error: a
// response with the error alone would read as the end of everything.
func TestErrorsWhileAFullStateIsHeld(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.open(false)
		s.Subscribe(cds, "a", "z")
		w.asked(cds, "a", "z")
		w.change(cds, nil, cluster("a", 1))
		s.Nack(has(t, s.Recv(t), "a"), "no")
		w.settled(cds, Nacked)
		w.refuse(cds, "z", resource.CodeUnavailable)
		s.Quiet(t, short)
		w.change(cds, nil, cluster("a", 2))
		s.Ack(hears(t, has(t, s.Recv(t), "a"), "z", resource.CodeUnavailable))
		s.Quiet(t, short)
	})
}

// TestResponseFieldsTravel: A7: what a delta response says of names, and what the
// relay does not know of it, reaches delta clients.
func TestResponseFieldsTravel(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		delta, sotw := w.open(true), w.open(false)
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Subscribe(eds, "a")
		}
		w.asked(eds, "a")
		w.change(eds, nil, endpoints("a", 1))
		for _, s := range []*xdstest.Stream{delta, sotw} {
			s.Ack(has(t, s.Recv(t), "a"))
		}
		unknown := protowire.AppendString(protowire.AppendTag(nil, 99, protowire.BytesType), "from the future")
		name := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "a")
		w.origin().Apply(cache.Update{
			Type: resource.TypeOf(eds), Removed: []string{"a"}, Extra: unknown, RemovedNames: []resource.About{{Name: "a", Raw: name}},
		})
		f := hasRemoved(t, delta.Recv(t), []string{"a"})
		raw := f.Raw.(*discoveryv3.DeltaDiscoveryResponse)
		if string(raw.ProtoReflect().GetUnknown()) != string(unknown) || len(raw.GetRemovedResourceNames()) != 1 || raw.GetRemovedResourceNames()[0].GetName() != "a" {
			t.Fatalf("got %v", raw)
		}
		delta.Ack(f)
		sotw.Quiet(t, short)
		delta.Quiet(t, short)
	})
}

// TestUnreachableNames: K15: a client that requests names of which nothing is known while the
// origin is away is sent errors for them before it takes the silence for absence, once in an
// outage; on a full-state type it is sent nothing.
func TestUnreachableNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, func(c *Config) { c.OriginTimeout = 2 * short })
		s := w.open(delta)
		s.Subscribe(cds, "a")
		w.asked(cds, "a")
		w.change(cds, nil, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.origin().Down(errGone)
		s.Subscribe(eds, "x")
		s.Ack(hears(t, has(t, s.Recv(t)), "x", resource.CodeUnavailable))
		s.Subscribe(eds, "y")
		s.Ack(hears(t, has(t, s.Recv(t)), "y", resource.CodeUnavailable))
		if s.Subscribe(cds, "b"); delta {
			s.Ack(hears(t, has(t, s.Recv(t)), "b", resource.CodeUnavailable))
		}
		s.Quiet(t, 5*short)
		w.origin().Up()
		w.origin().Down(errGone)
		for sent := 0; sent < 2; { // in one response or in two
			f := s.RecvType(t, eds)
			s.Ack(f)
			sent += len(f.Errors)
		}
		w.origin().Up()
		w.asked(eds, "x", "y")
		w.change(eds, nil, endpoints("x", 1), endpoints("y", 1))
		has(t, s.RecvType(t, eds), "x", "y")
	})
}

// The loss of precision by a step stays small against the lifetime.
func TestSteps(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: time.Second, 64 * time.Second: time.Second, 30 * time.Second: 100 * time.Millisecond,
		time.Second: 10 * time.Millisecond, 100 * time.Millisecond: time.Millisecond, 0: time.Millisecond, -time.Hour: time.Millisecond,
	} {
		if got := stepOf(left); got != want {
			t.Errorf("%v left: a step of %v, expected %v", left, got, want)
		}
	}
}
