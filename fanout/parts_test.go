package fanout

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

const vhds = resource.VirtualHostURL

// sized makes resources of so many bytes each.
func sized(typeURL string, size int, names ...string) (rs []*resource.Resource) {
	for _, n := range names {
		body, err := proto.Marshal(&anypb.Any{TypeUrl: typeURL, Value: make([]byte, size)})
		if err != nil {
			panic(err)
		}
		rs = append(rs, resource.New(resource.Resource{Name: n, Body: body}))
	}
	return rs
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%03d", prefix, i))
	}
	return names
}

// restOf receives parts until all names have come, and acknowledges each; the
// next one must not come before that (B9).
func restOf(t *testing.T, s *xdstest.Stream, typeURL string, limit int, names ...string) (frames int) {
	t.Helper()
	expected := make(map[string]bool)
	for _, n := range names {
		expected[n] = true
	}
	for ; len(expected) > 0; frames++ {
		f := s.RecvType(t, typeURL)
		if n := proto.Size(f.Raw); n >= limit {
			t.Fatalf("a frame of %d bytes, the limit is %d", n, limit)
		}
		for _, n := range append(f.Names(), f.Removed...) {
			if !expected[n] {
				t.Fatalf("%q was not expected (any more): %v", n, f)
			}
			delete(expected, n)
		}
		s.Ack(f)
	}
	return frames
}

// TestPartsOfDelta: B40, B9, D13: 20 MiB come in frames below 4 MiB, one at a
// time; and clients in the same position share them, though not with those who
// are elsewhere.
func TestPartsOfDelta(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t)
		names := numbered("rc/", 160)
		first, second := w.open(true), w.open(true)
		for _, s := range []*xdstest.Stream{first, second} {
			s.Subscribe(vhds)
		}
		w.wildcards(vhds, 2)
		w.asked(vhds, "*")
		w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 128<<10, names...)})
		f := first.Recv(t)
		first.Quiet(t, short)
		first.Ack(f)
		frames := 1 + restOf(t, first, vhds, 4<<20, names[len(f.Resources):]...)
		if frames < 5 || frames > 7 {
			t.Errorf("20 MiB came in %d frames", frames)
		}
		built := w.srv.bodies.Built()
		if n := restOf(t, second, vhds, 4<<20, names...); n != frames {
			t.Errorf("another client got %d frames, not %d", n, frames)
		}
		if n := w.srv.bodies.Built(); n != built {
			t.Errorf("%d bodies were built for a client that came the same way", n-built)
		}
		w.origin().Apply(cache.Update{Type: resource.TypeOf(vhds), Resources: sized(vhds, 100, names[0], names[1], names[2])})
		first.Ack(has(t, first.Recv(t), names[0], names[1], names[2])) // D13
		first.Quiet(t, short)
	})
}

// small is a limit that so many resources of 200 bytes fit in.
func small(n int) func(*Config) {
	return func(c *Config) { c.MaxSendBytes = n * 360 * 16 / 15 }
}

// TestPartsOfSotW: B40, B27: types that need no full state are divided on SotW,
// too; a full state is not, which is counted and logged.
func TestPartsOfSotW(t *testing.T) {
	virtual(t, func(t *testing.T) {
		log := &lines{}
		w := newWorld(t, small(2), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
		s := w.open(false)
		s.Subscribe(eds, "a", "b", "c", "d", "e")
		w.asked(eds, "a", "b", "c", "d", "e")
		var all []*resource.Resource
		for _, n := range []string{"a", "b", "c", "d", "e"} {
			all = append(all, resources(t, xdstest.Endpoints(n, "127.0.0.1:80", "127.0.0.2:80", "127.0.0.3:80", "127.0.0.4:80"))...)
		}
		w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: all})
		if n := restOf(t, s, eds, w.srv.cfg.MaxSendBytes, "a", "b", "c", "d", "e"); n < 2 {
			t.Errorf("all came in %d frame", n)
		}
		s.Quiet(t, short)
		if n := log.count("cannot be split"); n != 0 {
			t.Errorf("%d alarms for what was divided", n)
		}
		s.Subscribe(lds)
		w.asked(lds, "*")
		for v := range 3 {
			w.serve("", lds, listener("a", v), listener("b", v), listener("c", v), listener("d", v))
			s.Ack(has(t, s.Recv(t), "a", "b", "c", "d"))
		}
		if n := log.count("cannot be split"); n != 1 {
			t.Errorf("%d alarms for what could not be divided, expected 1", n)
		}
	})
}

// TestLargeResourceAlone: B40: a resource that is larger than the limit goes
// alone.
func TestLargeResourceAlone(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, small(3))
		s := w.open(true)
		s.Subscribe(eds, "a", "b", "c", "d")
		w.asked(eds, "a", "b", "c", "d")
		w.origin().Apply(cache.Update{
			Type: resource.TypeOf(eds), Resources: slices.Concat(sized(eds, 100, "a"), sized(eds, 10000, "b"), sized(eds, 100, "c", "d")),
		})
		s.Ack(has(t, s.Recv(t), "a"))
		s.Ack(has(t, s.Recv(t), "b"))
		s.Ack(has(t, s.Recv(t), "c", "d"))
		s.Quiet(t, short)
	})
}

// TestRoutesWaitForAllParts: B40, E2: a type with further parts to send is behind, also if these
// parts have names that must be sent to the client again.
func TestRoutesWaitForAllParts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, small(2))
		s := w.open(true)
		s.Subscribe(cds, "a", "b", "c")
		s.Subscribe(rds, "r")
		w.asked(rds, "r")
		w.asked(cds, "a", "b", "c")
		w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: sized(cds, 200, "a", "b", "c")})
		s.Ack(has(t, s.Recv(t), "a", "b"))
		last := has(t, s.Recv(t), "c")
		w.change(rds, nil, route("r", "c"))
		s.Ack(last)
		s.Ack(has(t, s.RecvType(t, rds), "r"))

		s.Subscribe(cds, "a", "b", "c") // B35
		f := has(t, s.Recv(t), "a", "b")
		w.change(rds, nil, route("r", "b"))
		s.Quiet(t, short)
		s.Ack(f)
		s.Ack(has(t, s.Recv(t), "c"))
		s.Ack(has(t, s.RecvType(t, rds), "r"))

		s.Subscribe(cds, "a", "b", "c")
		f = has(t, s.Recv(t), "a", "b")
		s.Unsubscribe(cds, "c") // what was to come need not come
		w.change(rds, nil, route("r", "a"))
		s.Ack(f)
		s.Ack(has(t, s.RecvType(t, rds), "r"))
		s.Quiet(t, short)
	})
}

// TestNackOfAPart: B40, B14, B16: the parts after a rejected one come all the
// same, nothing that was rejected comes again by itself, and with the next
// change everything does.
func TestNackOfAPart(t *testing.T) {
	for _, answers := range []string{"nack ack ack", "ack nack ack", "ack ack nack", "nack nack nack"} {
		t.Run(answers, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				w := newWorld(t, small(2))
				s := w.open(true)
				names := []string{"a", "b", "c", "d", "e", "f"}
				s.Subscribe(eds, names...)
				w.asked(eds, names...)
				w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 200, names...)})
				for i, answer := range strings.Fields(answers) {
					f := has(t, s.Recv(t), names[2*i:2*i+2]...)
					if answer == "ack" {
						s.Ack(f)
					} else {
						s.Nack(f, "no")
					}
				}
				s.Quiet(t, short)
				w.settled(eds, Nacked)
				w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 201, "f")})
				again := names
				if !strings.HasPrefix(answers, "nack") { // the first part was acknowledged
					again = names[2:]
				}
				if strings.HasPrefix(answers, "ack ack") {
					again = names[4:]
				}
				restOf(t, s, eds, w.srv.cfg.MaxSendBytes, again...)
				s.Quiet(t, short)
				w.settled(eds, Synced)
			})
		})
	}
}

// TestNewsAmongTheParts: B16, B40: a change that comes after a part was rejected,
// or on its way, is a reason to send that again, even if the change itself was
// among the parts that followed.
func TestNewsAmongTheParts(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, early := range []bool{false, true} {
			w := newWorld(t, small(2))
			s := w.open(true)
			names := []string{"a", "b", "c", "d", "e", "f"}
			s.Subscribe(eds, names...)
			w.asked(eds, names...)
			news := func() {
				w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 201, "f")})
			}
			w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: sized(eds, 200, names...)})
			f := has(t, s.Recv(t), "a", "b")
			if early {
				news()
			}
			s.Nack(f, "no")
			f = has(t, s.Recv(t), "c", "d")
			if !early {
				news()
			}
			s.Ack(f)
			s.Ack(has(t, s.Recv(t), "e", "f"))
			restOf(t, s, eds, w.srv.cfg.MaxSendBytes, names...)
			s.Quiet(t, short)
			w.settled(eds, Synced)
		}
	})
}

// TestPartOfRemovalsAfterARejection: B16, B40: if the content that is sent again begins with a part
// that SotW has no form for, the rest is found nevertheless.
func TestPartOfRemovalsAfterARejection(t *testing.T) {
	virtual(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.MaxSendBytes = 400 })
		s := w.open(false)
		var gone []string
		for i := range 8 {
			gone = append(gone, fmt.Sprint(strings.Repeat("x", 100), i))
		}
		s.Subscribe(eds, append(gone, "a")...)
		w.asked(eds, append(gone, "a")...)
		w.change(eds, nil, endpoints("a", 1))
		s.Nack(has(t, s.Recv(t), "a"), "no")
		w.change(eds, gone)
		s.Quiet(t, short)
		w.change(eds, nil, endpoints("a", 2))
		s.Ack(has(t, s.Recv(t), "a"))
		w.change(eds, nil, endpoints(gone[0], 1))
		has(t, s.Recv(t), gone[0])
	})
}
