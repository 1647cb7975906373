package rest

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// poller is a polling client and what it has.
type poller struct {
	path    string
	names   []string
	version string
	held    map[string][]byte
	rejects bool // keeps its old content (H5)
}

// TestConvergence: whatever the control plane changes, and whatever clients have missed or
// rejected, each poll gets exactly the content for the client, and 304 only if the client has that
// (H4, H5, H6, B32).
func TestConvergence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSilentWorld(t, hold(-1))
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3)
		live := map[string]map[string][]byte{clusters: {}, endpoints: {}}
		w.known(clusters, cluster("a", 0), cluster("b", 0), cluster("c", 0))
		w.known(endpoints, endpointsOf("a", 0), endpointsOf("b", 0), endpointsOf("c", 0))
		w.change(cds, []string{"a", "b", "c"})
		w.change(eds, []string{"a", "b", "c"})
		var pollers []*poller
		for range 4 {
			pollers = append(pollers, &poller{
				path:  rapid.SampledFrom([]string{clusters, endpoints}).Draw(t, "path"),
				names: slices.Compact(slices.Sorted(slices.Values(names.Draw(t, "asked")))), held: make(map[string][]byte),
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				path := rapid.SampledFrom([]string{clusters, endpoints}).Draw(t, "path")
				u := cache.Update{Type: w.srv.types[path], Version: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "version")}
				for _, n := range names.Draw(t, "names") {
					var r *resource.Resource
					if v := rapid.IntRange(0, 3).Draw(t, "content"); v > 0 {
						r = resources(w.t, xdstest.Synthetic(u.Type.URL, n, v))[0]
					}
					u.Resources = slices.DeleteFunc(u.Resources, func(o *resource.Resource) bool { return o.Name == n })
					u.Removed = slices.DeleteFunc(u.Removed, func(o string) bool { return o == n })
					if r == nil {
						delete(live[path], n)
						u.Removed = append(u.Removed, n)
					} else {
						live[path][n] = r.Body
						u.Resources = append(u.Resources, r)
					}
				}
				w.origin().Apply(u)
			},
			"poll": func(t *rapid.T) {
				p := rapid.SampledFrom(pollers).Draw(t, "client")
				p.rejects = rapid.IntRange(0, 3).Draw(t, "rejects") == 0
				p.poll(t, w, live[p.path])
			},
		})
		for _, p := range pollers {
			p.rejects = false
			p.poll(t, w, live[p.path])
		}
	})
}

// poll polls once, and compares what the client then has with the content.
func (p *poller) poll(t *rapid.T, w *world, live map[string][]byte) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.path, strings.NewReader(ask(p.version, p.names...)))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string][]byte)
	for n, body := range live {
		if slices.Contains(p.names, n) || len(p.names) == 0 && w.srv.types[p.path].Wildcard {
			want[n] = body
		}
	}
	a := w.srv.serve(httptest.NewRecorder(), req, w.srv.types[p.path])
	switch a.status {
	case http.StatusNotModified:
		// Where omitting is not removing, a client that has content gets no empty answer.
		if silent := len(want) == 0 && !w.srv.types[p.path].FullState; !silent {
			p.expect(t, want)
		}
		return
	case http.StatusOK:
	default:
		t.Fatalf("%d %s", a.status, a.body)
	}
	var m discoveryv3.DiscoveryResponse
	if err := protojson.Unmarshal(a.body, &m); err != nil {
		t.Fatal(err)
	}
	if m.VersionInfo == p.version || m.VersionInfo == "" {
		t.Fatalf("200 with the version %q that the client has", m.VersionInfo)
	}
	if p.rejects {
		return
	}
	p.version, p.held = m.VersionInfo, make(map[string][]byte)
	for _, r := range resources(w.t, messages(t, &m)...) {
		p.held[r.Name] = r.Body
	}
	p.expect(t, want)
}

func (p *poller) expect(t *rapid.T, want map[string][]byte) {
	if !maps.EqualFunc(p.held, want, slices.Equal) {
		t.Fatalf("a client of %s %v has %v, expected %v", p.path, p.names, slices.Sorted(maps.Keys(p.held)), slices.Sorted(maps.Keys(want)))
	}
}

// messages returns the resources of a response.
func messages(t *rapid.T, m *discoveryv3.DiscoveryResponse) (out []proto.Message) {
	for _, a := range m.Resources {
		inner, err := a.UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, inner)
	}
	return out
}
