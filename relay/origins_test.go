package relay_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

const quiet = 300 * time.Millisecond

// asksFor takes requests until the names that are asked of a type are those, in
// any order, and fails if a name of another origin is among them.
func asksFor(t *testing.T, st *xdstest.OriginStream, typeURL string, names ...string) {
	t.Helper()
	asked := map[string]bool{}
	for len(asked) < len(names) {
		r := st.NextRequestOf(t, typeURL)
		for _, n := range append(slices.Clone(r.Names), r.Subscribe...) {
			if !slices.Contains(names, n) {
				t.Fatalf("%q was asked for, expected only %q", n, names)
			}
			asked[n] = true
		}
	}
}

// withOrigins is a configuration with a first origin and others, all alike.
func withOrigins(variant config.Variant, first *xdstest.Origin, others ...config.NamedUpstream) *config.Config {
	cfg := testConfig()
	cfg.Upstream.Addresses, cfg.Upstream.Variant = []string{first.Addr()}, variant
	for _, o := range others {
		o.Variant = variant
		cfg.Upstreams = append(cfg.AllUpstreams(), o)
	}
	return cfg
}

func other(name string, o *xdstest.Origin, change func(*config.NamedUpstream)) config.NamedUpstream {
	out := config.NamedUpstream{Name: name, Upstream: config.DefaultUpstream()}
	out.Addresses = []string{o.Addr()}
	out.Backoff.Initial, out.Backoff.Max = 20*time.Millisecond, 100*time.Millisecond
	change(&out)
	return out
}

// TestAuthoritiesSelectTheOrigin: names of two authorities and of none each appear
// only at their own origin, over one stream of the client; an authority that is not
// configured is told absent, and no origin hears of it (G3). So are names of another
// type (G2), and those with directives (G5).
func TestAuthoritiesSelectTheOrigin(t *testing.T) {
	const prefix = "/envoy.config.cluster.v3.Cluster/"
	x, y, plain := "xdstp://x"+prefix+"a", "xdstp://y"+prefix+"a", "a"
	empty, nobody := "xdstp://"+prefix+"a", "xdstp://nobody"+prefix+"a"
	wrong, fragment := "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a", x+"#entry=b"
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run(string(variant), func(t *testing.T) {
			u, ux, uy := xdstest.NewOrigin(t), xdstest.NewOrigin(t), xdstest.NewOrigin(t)
			n := start(t, withOrigins(variant, u,
				other("ux", ux, func(o *config.NamedUpstream) { o.Authorities = []string{"x", ""} }),
				other("uy", uy, func(o *config.NamedUpstream) { o.Authorities = []string{"y"} })))
			d := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{Delta: true})
			d.Subscribe(xdstest.ClusterType, plain, x, y, empty, nobody, wrong, fragment)

			f := d.RecvType(t, xdstest.ClusterType)
			if want := []string{nobody, fragment, wrong}; !sameNames(f.Removed, want) || len(f.Resources) > 0 {
				t.Fatalf("first told %v, expected the absence of %q", f, want)
			}
			d.Ack(f)
			held := map[string]bool{}
			for st, names := range map[*xdstest.OriginStream][]string{
				u.NextStream(t): {plain}, ux.NextStream(t): {x, empty}, uy.NextStream(t): {y},
			} {
				asksFor(t, st, xdstest.ClusterType, names...)
				var clusters []proto.Message
				for _, name := range names {
					clusters = append(clusters, xdstest.Cluster(name, time.Second))
				}
				st.Respond(t, xdstest.ClusterType, "1", clusters...)
				f := d.RecvType(t, xdstest.ClusterType)
				if !sameNames(f.Names(), names) || len(f.Removed) > 0 {
					t.Fatalf("told %v, expected %q", f, names)
				}
				d.Ack(f)
				for _, name := range f.Names() {
					held[name] = true
				}
			}
			if len(held) != 4 {
				t.Errorf("the client holds %v", held)
			}
		})
	}
}

func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// TestTypesSelectTheOrigin: secrets come from one origin, everything else from
// another; the client has one stream. That one origin is away does not keep from
// the client what the other serves (K13), and an operator sees which one it is.
func TestTypesSelectTheOrigin(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(xdstest.Variant{Delta: delta}.String(), func(t *testing.T) {
			u, sds := xdstest.NewOrigin(t), xdstest.NewOrigin(t)
			sds.Stop()
			n := start(t, withOrigins(config.Delta, u, other("secrets", sds, func(o *config.NamedUpstream) { o.Types = []string{"Secret"} })))
			c := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{Delta: delta})
			c.Subscribe(xdstest.ClusterType)
			c.Subscribe(xdstest.SecretType, "s")
			first := u.NextStream(t)
			first.NextRequestOf(t, xdstest.ClusterType)
			first.Respond(t, xdstest.ClusterType, "1", xdstest.Cluster("a", time.Second))
			c.Ack(c.RecvType(t, xdstest.ClusterType))
			c.QuietType(t, xdstest.SecretType, quiet)
			legs := func() map[string]cache.StreamInfo {
				var keys []cache.GroupInfo
				if _, text := n.get(t, "/debug/keys?format=json"); json.Unmarshal([]byte(text), &keys) != nil {
					t.Fatalf("no JSON: %s", text)
				}
				out := map[string]cache.StreamInfo{}
				for _, l := range keys[0].Streams {
					out[l.Origin] = l
				}
				return out
			}
			xdstest.Eventually(t, "the missing origin to be shown", func() bool {
				l := legs()
				return l["default"].Connected && l["default"].Error == "" && l["secrets"].Wanted && !l["secrets"].Connected && l["secrets"].Error != ""
			})
			if _, text := n.get(t, "/debug/keys"); !strings.Contains(text, "down: secrets") {
				t.Errorf("the table of keys does not name the origin:\n%s", text)
			}
			if err := n.Ready(); err != nil {
				t.Errorf("not ready: %v", err)
			}

			if err := sds.Start(); err != nil {
				t.Fatal(err)
			}
			second := sds.NextStream(t)
			asksFor(t, second, xdstest.SecretType, "s")
			second.Respond(t, xdstest.SecretType, "1", xdstest.Secret("s", "cert", "key"))
			if f := c.RecvType(t, xdstest.SecretType); !slices.Equal(f.Names(), []string{"s"}) {
				t.Fatalf("told %v", f)
			}
			xdstest.Eventually(t, "all origins to be connected", func() bool { l := legs(); return l["secrets"].Connected && l["secrets"].Error == "" })
		})
	}
}

// TestStreamsThatNobodyNeeds: an origin gets a stream when something is wanted of
// it, and loses it when nothing is for the linger time (K10).
func TestStreamsThatNobodyNeeds(t *testing.T) {
	u, sds := xdstest.NewOrigin(t), xdstest.NewOrigin(t)
	cfg := withOrigins(config.Delta, u, other("secrets", sds, func(o *config.NamedUpstream) { o.Types = []string{"Secret"} }))
	cfg.Cache.Linger = 50 * time.Millisecond
	c := xdstest.Dial(t, start(t, cfg).Addr()).Open(xdstest.Variant{Delta: true})
	c.Subscribe(xdstest.ClusterType)
	u.NextStream(t)
	sds.NoStream(t, quiet)
	for range 2 { // and it comes back
		c.Subscribe(xdstest.SecretType, "s")
		st := sds.NextStream(t)
		asksFor(t, st, xdstest.SecretType, "s")
		c.Unsubscribe(xdstest.SecretType, "s")
		st.WaitClosed(t)
	}
}

// TestSeparateNames: with the switch, names and the wildcard of a type are asked
// for on two streams of one origin, as one Node, and what came by name alone never
// reaches a client of the wildcard; without it, there is one stream (D11).
func TestSeparateNames(t *testing.T) {
	t.Parallel()
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run(string(variant), func(t *testing.T) {
			t.Parallel()
			u := xdstest.NewOrigin(t)
			cfg := withOrigins(variant, u)
			cfg.Upstream.SeparateNames = []string{"Cluster"}
			conn := xdstest.Dial(t, start(t, cfg).Addr())
			all, one, both := conn.Open(xdstest.Variant{Delta: true}), conn.Open(xdstest.Variant{}), conn.Open(xdstest.Variant{Delta: true})
			cluster := func(name string) proto.Message { return xdstest.Cluster(name, time.Second) }

			all.Subscribe(xdstest.ClusterType)
			wild := u.NextStream(t)
			w := wild.NextRequestOf(t, xdstest.ClusterType)
			wild.Respond(t, xdstest.ClusterType, "1", cluster("a"))
			all.Ack(all.RecvType(t, xdstest.ClusterType))

			one.Subscribe(xdstest.ClusterType, "x")
			both.Subscribe(xdstest.ClusterType, "*", "x")
			named := u.NextStream(t)
			r := named.NextRequestOf(t, xdstest.ClusterType)
			if !proto.Equal(w.Node, r.Node) || w.Node == nil {
				t.Errorf("the streams are of %v and %v", w.Node, r.Node)
			}
			if names := append(slices.Clone(r.Names), r.Subscribe...); !slices.Equal(names, []string{"x"}) {
				t.Fatalf("asked by name for %q", names)
			}
			named.Respond(t, xdstest.ClusterType, "1", cluster("x"))
			if f := one.RecvType(t, xdstest.ClusterType); !slices.Equal(f.Names(), []string{"x"}) {
				t.Fatalf("by name: %v", f)
			}
			held := map[string]bool{}
			for len(held) < 2 {
				f := both.RecvType(t, xdstest.ClusterType)
				for _, name := range f.Names() {
					held[name] = true
				}
				both.Ack(f)
			}
			all.QuietType(t, xdstest.ClusterType, quiet)

			// It becomes a member, and stops being one.
			wild.Respond(t, xdstest.ClusterType, "2", cluster("a"), cluster("x"))
			f := all.RecvType(t, xdstest.ClusterType)
			if !slices.Equal(f.Names(), []string{"x"}) {
				t.Fatalf("a new member: %v", f)
			}
			all.Ack(f)
			if variant == config.SotW {
				wild.Respond(t, xdstest.ClusterType, "3", cluster("a"))
			} else {
				wild.RespondRemoved(t, xdstest.ClusterType, "3", "x")
			}
			if f := all.RecvType(t, xdstest.ClusterType); !slices.Equal(f.Removed, []string{"x"}) || len(f.Resources) > 0 {
				t.Fatalf("no member any more: %v", f)
			}
			both.QuietType(t, xdstest.ClusterType, quiet) // it still has it by name
		})
	}
	t.Run("off", func(t *testing.T) {
		u := xdstest.NewOrigin(t)
		conn := xdstest.Dial(t, start(t, withOrigins(config.Delta, u)).Addr())
		all, one := conn.Open(xdstest.Variant{Delta: true}), conn.Open(xdstest.Variant{})
		all.Subscribe(xdstest.ClusterType)
		st := u.NextStream(t)
		st.NextRequestOf(t, xdstest.ClusterType)
		one.Subscribe(xdstest.ClusterType, "x")
		asksFor(t, st, xdstest.ClusterType, "x", "*")
		u.NoStream(t, quiet)
	})
}

// TestDeltaOnlyOverSotW: what has no SotW form is nobody's where its origin
// speaks SotW, and is told so without asking (D8).
func TestDeltaOnlyOverSotW(t *testing.T) {
	u := xdstest.NewOrigin(t)
	cfg := withOrigins(config.SotW, u)
	cfg.Upstream.Authorities = []string{"x"}
	d := xdstest.Dial(t, start(t, cfg).Addr()).Open(xdstest.Variant{Delta: true})
	const glob = "xdstp://x/envoy.config.cluster.v3.Cluster/*"
	for typeURL, name := range map[string]string{xdstest.VirtualHostType: "rc/h", xdstest.ClusterType: glob} {
		d.Subscribe(typeURL, name)
		f := d.RecvType(t, typeURL)
		if !slices.Equal(f.Removed, []string{name}) {
			t.Fatalf("%s: told %v", typeURL, f)
		}
		d.Ack(f)
	}
	u.NoStream(t, quiet)
}

// TestSoleOriginServesEveryAuthority: G3: an origin that is the only one and lists no
// authorities is asked for structured names of every authority.
func TestSoleOriginServesEveryAuthority(t *testing.T) {
	const name = "xdstp://any.example/envoy.config.cluster.v3.Cluster/a"
	u := xdstest.NewOrigin(t)
	n := start(t, withOrigins(config.Delta, u))
	d := xdstest.Dial(t, n.Addr()).Open(xdstest.Variant{Delta: true})
	d.Subscribe(xdstest.ClusterType, name)
	st := u.NextStream(t)
	asksFor(t, st, xdstest.ClusterType, name)
	st.Respond(t, xdstest.ClusterType, "1", xdstest.Cluster(name, time.Second))
	if f := d.RecvType(t, xdstest.ClusterType); !sameNames(f.Names(), []string{name}) || len(f.Removed) > 0 {
		t.Fatalf("got %v, expected %q", f, name)
	}
}
