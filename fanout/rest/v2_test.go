package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

func withV2(c *Config) { c.V2 = true }

// changeV2 applies a resource of version 2.
func (w *world) changeV2(name string, body *anypb.Any) {
	w.t.Helper()
	b, err := proto.Marshal(body)
	if err != nil {
		w.t.Fatalf("marshal: %v", err)
	}
	w.origin().Apply(cache.Update{
		Type: resource.TypeOf(body.TypeUrl), Resources: []*resource.Resource{resource.New(resource.Resource{Name: name, Body: b})},
	})
}

// TestPathsOfV2: if version 2 is served, each of its paths has its type, with the names of that
// version in JSON (J1, J2, H1).
func TestPathsOfV2(t *testing.T) {
	n := 0
	for path, typ := range newSilentWorld(t, withV2).srv.types {
		if !typ.V2 {
			continue
		}
		n++
		t.Run(path, func(t *testing.T) {
			w := newWorld(t, withV2)
			done := w.waiting(1, path, ask("", "a"))
			w.asked(typ.URL, "a")
			for _, v3 := range resource.Known() {
				if xdstest.V2TypeOf(v3.URL) == typ.URL {
					w.changeV2("a", xdstest.V2(xdstest.Synthetic(v3.URL, "a", 1)))
				}
			}
			res := w.arrives(done)
			var got struct {
				TypeURL   string `json:"typeUrl"`
				Resources []map[string]any
			}
			if err := json.Unmarshal(res.body, &got); err != nil || res.status != http.StatusOK || len(got.Resources) != 1 {
				t.Fatalf("%d %s: %v", res.status, res.body, err)
			}
			if r := got.Resources[0]; got.TypeURL != typ.URL || r["@type"] != typ.URL || r["name"] != "a" && r["clusterName"] != "a" {
				t.Errorf("got %s", res.body)
			}
			if bytes.Contains(res.body, []byte(".v3.")) && typ.URL != resource.ListenerV2URL { // its filter is of version 3 here
				t.Errorf("version 3 shows in %s", res.body)
			}
		})
	}
	if n != 7 {
		t.Errorf("%d paths, expected 7", n)
	}
}

// TestFieldsOfV2: fields that only version 2 has are written, fields that it does not have are
// refused, and extensions may be of either version (J3).
func TestFieldsOfV2(t *testing.T) {
	w := newWorld(t, withV2, hold(-1))
	const path = "/v2/discovery:clusters"
	w.post(path, ask(""))
	w.origin().TakeDemand(true, true)
	hosts := []byte{7<<3 | 2, 4, 0x0a, 2, 0x18, 80} // a socket address with a port
	old := xdstest.V2(&clusterv3.Cluster{Name: "old"})
	old.Value = append(old.Value, hosts...)
	w.changeV2("old", old)
	v3 := withFilter("new", xdstest.Any(xdstest.Route("r", "c")))
	w.changeV2("mixed", xdstest.V2(v3))
	res := w.post(path, ask(""))
	if res.status != http.StatusOK || !bytes.Contains(res.body, []byte(`"hosts":[{"socketAddress":{"portValue":80}}]`)) {
		t.Errorf("%d %s", res.status, res.body)
	}
	w.changeV2("newer", xdstest.V2(newer(xdstest.Cluster("newer", 1))))
	w.fails(w.post(path, ask("")), http.StatusInternalServerError, "newer", "4242", "envoy.api.v2.Cluster")
}

// TestVersionsOfPaths: no path of version 2 is served unless configured; a path serves only types
// of its version, and a Node of version 2 is understood (J1, J2, J3).
func TestVersionsOfPaths(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.fails(w.post("/v2/discovery:clusters", ask("")), http.StatusNotFound)
	w = newWorld(t, withV2, hold(-1))
	w.fails(w.post("/v2/discovery:extension_configs", ask("")), http.StatusNotFound)
	node := `"node":{"id":"n","cluster":"test-cluster","buildVersion":"v1.8/Clean"}`
	w.fails(w.post("/v2/discovery:clusters", `{`+node+`,"typeUrl":"`+cds+`"}`), http.StatusBadRequest, cds)
	w.fails(w.post(clusters, `{`+node+`,"typeUrl":"`+resource.ClusterV2URL+`"}`), http.StatusBadRequest, resource.ClusterV2URL)
	w.known(clusters, cluster("a", 1))
	w.has(w.post(clusters, `{`+node+`}`), "a")
	// J4: content known in one version is not known in the other.
	w.fails(w.post("/v2/discovery:clusters", `{`+node+`,"type_url":"`+resource.ClusterV2URL+`"}`), http.StatusServiceUnavailable)
}
