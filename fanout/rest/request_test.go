package rest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestPaths: each path of table A-1 serves its type, and there are no others (H1, A1, D2).
func TestPaths(t *testing.T) {
	want := []string{
		"/v3/discovery:clusters", "/v3/discovery:endpoints", "/v3/discovery:extension_configs", "/v3/discovery:listeners",
		"/v3/discovery:routes", "/v3/discovery:runtime", "/v3/discovery:scoped-routes", "/v3/discovery:secrets",
	}
	var got []string
	for path, typ := range newSilentWorld(t).srv.types {
		got = append(got, path)
		t.Run(path, func(t *testing.T) {
			w := newWorld(t)
			done := w.waiting(1, path, ask("", "a"))
			w.asked(typ.URL, "a")
			m := xdstest.Synthetic(typ.URL, "a", 1)
			w.serve("v1", typ.URL, m)
			res := w.arrives(done)
			w.has(res, "a")
			if body := w.message(res); body.TypeUrl != typ.URL || !proto.Equal(body.Resources[0], xdstest.Any(m)) {
				t.Errorf("%s instead of %v", res.body, m)
			}
		})
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("paths %v, expected %v", got, want)
	}
}

// TestUnknownPaths: a type without a REST form is not served, by any method (H1).
func TestUnknownPaths(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/", "/v3/discovery:aggregated", "/v3/discovery:virtual_hosts", "/v3/discovery:virtual-hosts", "/v3/discovery:client_status",
		"/v3/discovery:clusters/", "/v3/discovery:Clusters", "/v2/discovery:clusters", "/v3/discovery",
	} {
		w.fails(w.post(path, ask("")), http.StatusNotFound, "/v3/discovery:clusters")
		w.fails(w.do(http.MethodGet, path, nil), http.StatusNotFound)
	}
}

// TestOtherMethods: only POST is served (H1).
func TestOtherMethods(t *testing.T) {
	w := newWorld(t)
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "FETCH"} {
		res := w.do(method, clusters, strings.NewReader(ask("")))
		w.fails(res, http.StatusMethodNotAllowed, method, "POST")
		if got := res.header.Get("Allow"); got != http.MethodPost {
			t.Errorf("%s: Allow is %q", method, got)
		}
	}
	if res := w.do(http.MethodHead, clusters, nil); res.status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD: %d", res.status)
	}
}

// TestBadBodies: an invalid body is refused with the reason and the position (H1).
func TestBadBodies(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		body string
		want string
	}{
		{"", "the body is empty"},
		{" \n\t", "the body is empty"},
		{"{", "the body is not a DiscoveryRequest in JSON: unexpected"},
		{"[]", "line 1, column 1: "},
		{"null", "line 1, column 1: "},
		{"{}\n{}", "line 2, column 1: "},
		{"{\n  \"node\": 7\n}", "line 2, column 11: "},
		{"{\n  \"resource_names\": [\"a\",\n  7]\n}", "line 3, column 3: "},
		{`{"versionInfo":"1","version_info":"2"}`, "duplicate field"},
		{"{\"versionInfo\":\"\xff\"}", "invalid UTF-8"},
		{`{"node":{"metadata":` + strings.Repeat(`{"a":`, 50) + "1" + strings.Repeat("}", 50) + "}}", "recursion"},
		{`{"node":{"id":"` + strings.Repeat("x", 5000), "the body is not a DiscoveryRequest in JSON"},
	} {
		res := w.post(clusters, tc.body)
		w.fails(res, http.StatusBadRequest, tc.want, `"code":3`)
		if len(res.body) > 2*maxMessage {
			t.Errorf("%.20q is answered with %d bytes", tc.body, len(res.body))
		}
	}
}

// TestLargeBody: the size of a request is bounded, whether or not it is announced (H1).
func TestLargeBody(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxReceiveBytes = 1000 })
	for _, announced := range []bool{true, false} {
		send := func(body string) *reply {
			if announced {
				return w.post(endpoints, body)
			}
			return w.do(http.MethodPost, endpoints, struct{ io.Reader }{strings.NewReader(body)}) // chunked
		}
		w.has(send(ask("")))
		w.fails(send(ask("")+strings.Repeat(" ", 1000)), http.StatusRequestEntityTooLarge, "1000 bytes")
	}
}

// TestPrivateResourcesAreNotPolled: K17, K6: resources that must not be shared are refused, either
// by type or because the control plane marks a resource; the rest is served.
func TestPrivateResourcesAreNotPolled(t *testing.T) {
	w := newWorld(t, hold(-1), func(c *Config) { c.Private = func(t *resource.Type) bool { return t.URL == rds } })
	w.fails(w.post("/v3/discovery:routes", ask("", "r")), http.StatusNotImplemented, "gRPC")
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("b", 1))
	r := resources(t, endpointsOf("a", 2))[0]
	w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: []*resource.Resource{
		resource.New(resource.Resource{Name: "a", Body: r.Body, DoNotCache: true}),
	}})
	w.fails(w.post(endpoints, ask("", "a")), http.StatusNotImplemented, "gRPC")
	w.has(w.post(endpoints, ask("", "b")), "b")
}

// TestSpellings: a request may use either name of a field, and unknown fields are ignored (H2).
func TestSpellings(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("b", 1))
	version := w.has(w.post(endpoints, ask("", "a")), "a")
	for _, body := range []string{
		`{"node":{"id":"n","cluster":"test-cluster"},"versionInfo":%q,"resourceNames":["a"],"typeUrl":%q,"responseNonce":"7"}`,
		`{"node":{"id":"n","cluster":"test-cluster"},"version_info":%q,"resource_names":["a"],"type_url":%q,"response_nonce":"7"}`,
		`{"node":{"id":"n","cluster":"test-cluster","buildVersion":"x","user_agent_name":"y","nonsense":[{}]},"version_info":%q,"resourceNames":["a"],"typeUrl":%q,"nonsense":{"a":1}}`,
	} {
		w.unchanged(w.post(endpoints, fmt.Sprintf(body, version, eds)))
		w.has(w.post(endpoints, fmt.Sprintf(body, "old", eds)), "a")
	}
}

// TestTypeIsThatOfThePath: a request may omit the type, and must not name another type than the
// path (H3).
func TestTypeIsThatOfThePath(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1))
	node := `"node":{"id":"n","cluster":"test-cluster"}`
	w.has(w.post(clusters, `{`+node+`}`), "a")
	w.has(w.post(clusters, `{`+node+`,"typeUrl":"`+cds+`"}`), "a")
	for _, url := range []string{eds, "envoy.config.cluster.v3.Cluster", cds + " "} {
		w.fails(w.post(clusters, `{`+node+`,"typeUrl":"`+url+`"}`), http.StatusBadRequest, "type_url", url, cds)
	}
}

// TestEveryRequestStandsAlone: each request must have a Node, even if an earlier one on the
// connection had one (H3).
func TestEveryRequestStandsAlone(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1))
	w.has(w.post(clusters, ask("")), "a")
	w.fails(w.post(clusters, `{"versionInfo":"x"}`), http.StatusBadRequest, "node is missing")
	w.fails(w.post(clusters, `{"node":{}}`), http.StatusBadRequest, "node id")
	w.fails(w.post(clusters, `{"node":{"id":"n"}}`), http.StatusBadRequest, "key: is empty") // no rule matches it
}

// TestRefusals: a refused client gets the reason, with the HTTP status for it (H1, G9).
func TestRefusals(t *testing.T) {
	rules, err := aggregation.Compile([]aggregation.Rule{{Name: "ours", Match: `node.cluster == "ours"`, Key: "node.cluster"}}, aggregation.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(c *Config) {
		c.MaxNames = 2
		c.Rules = func() *aggregation.Rules { return rules }
		if c.Limits, err = limit.New(limit.Values{NodeSize: 1 << 10, NameSize: 100}, nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	w.fails(w.post(clusters, ask("")), http.StatusForbidden, "no aggregation rule matches", `"code":7`)
	res := w.post(clusters, ask("", "a", "b", "c"))
	w.fails(res, http.StatusTooManyRequests, "3 names", "the limit is 2", `"code":8`)
	if res.header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	w.fails(w.post(clusters, ask("", strings.Repeat("x", 101))), http.StatusTooManyRequests, "101 bytes of names", "limits.max_names_size_per_stream")
	w.fails(w.post(endpoints, ask("", strings.Repeat("x", fanout.MaxName+1))), http.StatusTooManyRequests, "a resource name has 65537 bytes")
	w.fails(w.post(clusters, `{"node":{"id":"`+strings.Repeat("x", 2000)+`"}}`), http.StatusTooManyRequests, "limits.max_node_size")
	w.fails(w.post(clusters, `{"node":{"id":"n","cluster":"ours"},"resourceLocators":[{"name":"a"}]}`), http.StatusBadRequest, "resource_locators")
	for code, want := range map[codes.Code]int{
		codes.InvalidArgument: 400, codes.Unauthenticated: 401, codes.PermissionDenied: 403, codes.ResourceExhausted: 429,
		codes.Unavailable: 503, codes.Internal: 500, codes.Unknown: 500,
	} {
		if a := refusal(status.Error(code, "why")); a.status != want {
			t.Errorf("%s is %d, expected %d", code, a.status, want)
		}
	}
}

// TestBrowsersAreRefused: a web page whose host name points at the relay (DNS rebinding) cannot
// read the configuration.
func TestBrowsersAreRefused(t *testing.T) {
	w := newWorld(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+clusters, strings.NewReader(ask("")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Origin", w.url)
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("status %d", res.StatusCode)
	}
}

// FuzzParse: any body either decodes or is refused (H1, H2).
func FuzzParse(f *testing.F) {
	f.Add([]byte(ask("v1", "a", "b")))
	f.Add([]byte(`{"error_detail":{"details":[{"@type":"type.googleapis.com/x.Y"}]}}`))
	f.Add([]byte("{\n\"node\": 7}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := parse(body)
		if err != nil {
			if a := refusal(err); a.status != http.StatusBadRequest || len(a.body) > 10*maxMessage {
				t.Fatalf("%q is answered with %d %s", body, a.status, a.body)
			}
			return
		}
		if _, err := proto.Marshal(m); err != nil {
			t.Fatalf("%q is a request that cannot be written: %v", body, err)
		}
	})
}

// TestManyValues: a request with very many small values is refused before they are decoded, and one
// with as many names as allowed is not.
func TestManyValues(t *testing.T) {
	w := newWorld(t, hold(quiet), func(c *Config) { c.MaxNames = 10_000 })
	w.fails(w.post(clusters, `{"node":{"id":"n","metadata":{"a":[`+strings.Repeat("0,", 100_000)+`0]}}}`), http.StatusTooManyRequests, "30000 values")
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprintf(`a,"[{\\%d`, i) // each is no more than a name
	}
	if got := w.post(clusters, ask("", names...)); got.status == http.StatusTooManyRequests {
		t.Errorf("as many names as may be: %s", got.body)
	}
	for text, want := range map[string]int{`{"a":[1,"b,\"[{",{}]}`: 5, `"\\",`: 1, `"`: 0, `"\`: 0, ``: 0} {
		if got := valuesIn([]byte(text)); got != want {
			t.Errorf("%s has %d values, want %d", text, got, want)
		}
	}
}
