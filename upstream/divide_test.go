package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// longNames returns n names of some hundred bytes each.
func longNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%06d-%s", i, strings.Repeat("n", 93))
	}
	return names
}

// TestRequestsFitDefaultServers: a server with gRPC's default limit of 4 MiB for a message accepts
// all delta requests of a key, however many names they have, and on a new stream also the versions
// of cached resources, as many as fit. No stream ends because of that, and each resource arrives.
func TestRequestsFitDefaultServers(t *testing.T) {
	const many = 45_000 // 4.5 MB of names
	names := longNames(many)
	for name, start := range map[string]func(t *testing.T) (addr string, serve func(...string), stop func(), begin func() error){
		"go-control-plane": func(t *testing.T) (string, func(...string), func(), func() error) {
			cp := memory.NewLinearControlPlane(t)
			return cp.Addr(), func(names ...string) {
				for _, n := range names {
					cp.SetLinear(t, endpoints(n, 1))
				}
			}, cp.Stop, cp.Start
		},
		"plain server": func(t *testing.T) (string, func(...string), func(), func() error) {
			o := memory.NewStateOrigin(t, nil)
			return o.Addr(), func(names ...string) {
				for _, n := range names {
					o.Set("", endpoints(n, 1))
				}
			}, o.Stop, o.Start
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				addr, serve, stop, begin := start(t)
				served := []string{names[0], names[many/2], names[many-1]}
				serve(served...)
				c := newRig(t, fast(true, addr)).join("k").want(eds, names...)
				held := func() []string {
					var all []string
					for _, r := range c.sees(eds).Resources {
						all = append(all, r.Name)
					}
					slices.Sort(all)
					return all
				}
				xdstest.Eventually(t, "what is served", func() bool { return slices.Equal(held(), served) })
				stop()
				c.waitUpstream(false)
				serve(names[7])
				if err := begin(); err != nil {
					t.Fatal(err)
				}
				served = append(served, names[7])
				slices.Sort(served)
				xdstest.Eventually(t, "what is served after a restart", func() bool { return slices.Equal(held(), served) })
			})
		})
	}
}

// TestDividedRequests: on the wire, a delta request is divided below the limit. Only the first part
// has the node and the versions, each version together with its name, and no name is lost or
// repeated (B37, C8).
func TestDividedRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const limit, many = 64 << 10, 2000 // 200 kB of names
		names := longNames(many)
		o := memory.NewOrigin(t)
		cfg := fast(true, o.Addr())
		cfg.MaxSendBytes = limit
		c := newRig(t, cfg).join("k").want(eds, names...)
		read := func(st *xdstest.OriginStream) (subscribed []string, held map[string]string) {
			for i := 0; len(subscribed) < many; i++ {
				r := st.NextRequestOf(t, eds)
				size := 0
				for _, n := range append(slices.Clone(r.Subscribe), sortedKeys(r.Initial)...) {
					size += len(n)
				}
				if size > limit {
					t.Fatalf("request %d has %d bytes of names, expected at most %d", i, size, limit)
				}
				if (r.Node != nil) != (i == 0) || i > 0 && len(r.Initial) > 0 {
					t.Fatalf("request %d: node %v, %d versions, expected both in the first one only", i, r.Node, len(r.Initial))
				}
				if i == 0 {
					held = r.Initial
					for n := range held {
						if !slices.Contains(r.Subscribe, n) {
							t.Errorf("the first request has a version of %s, which it does not subscribe to", n)
						}
					}
				}
				subscribed = append(subscribed, r.Subscribe...)
			}
			slices.Sort(subscribed)
			if !slices.Equal(subscribed, names) {
				t.Errorf("%d names are subscribed, expected all %d once", len(subscribed), many)
			}
			return subscribed, held
		}
		st := o.NextStream(t)
		if _, held := read(st); len(held) != 0 {
			t.Errorf("%d versions on the first stream", len(held))
		}
		for part := range slices.Chunk(names, 500) {
			var rs []proto.Message
			for _, n := range part {
				rs = append(rs, endpoints(n, 1))
			}
			st.Respond(t, eds, "1", rs...)
		}
		xdstest.Eventually(t, "all endpoints", func() bool { return len(c.sees(eds).Resources) == many })
		st.Close(nil)
		st = o.NextStream(t)
		if _, held := read(st); len(held) < 100 || len(held) > 600 {
			t.Errorf("%d versions on the second stream, expected as many as fit beside their names", len(held))
		}
	})
}

// TestServerWithASmallLimit: if a server accepts less than expected, the relay sends smaller
// requests (delta), or leaves out names that were never answered, the newest first, and sends their
// clients an error with the reason (SotW). Answered names are requested again, so that the key
// receives updates.
func TestServerWithASmallLimit(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		names := longNames(45_000)
		cp := memory.NewLinearControlPlane(t)
		cp.SetLinear(t, endpoints("good", 1), endpoints(names[0], 1))
		cfg := fast(delta, cp.Addr())
		cfg.MaxSendBytes = 64 << 20
		r := newRig(t, cfg)
		good := r.join("k").want(eds, "good")
		good.waitState(eds, "good")
		bad := r.join("k").want(eds, names...)
		if delta {
			xdstest.Eventually(t, "the first of many names", func() bool { return bad.bodies(eds)[names[0]] != nil })
		} else {
			xdstest.Eventually(t, "errors of names that cannot be asked for", func() bool {
				got := bad.sees(eds)
				return len(got.Errors) > 1000 && strings.Contains(string(got.Errors[0]), tooLarge)
			})
		}
		cp.SetLinear(t, endpoints("good", 2))
		xdstest.Eventually(t, "a change of what was answered before", func() bool {
			return string(good.bodies(eds)["good"]) == string(marshal(t, endpoints("good", 2)))
		})
	})
}
