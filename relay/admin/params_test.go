package admin

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/ops"
)

// TestParameters holds that a handler reads no parameter that its endpoint does not declare,
// and sees those that it declares as they were sent.
func TestParameters(t *testing.T) {
	var got, want string
	h := reading([]string{ops.ParamKey, paramMetric}, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.Query().Encode() })
	r := httptest.NewRequest(http.MethodGet, "/x?key=a%20b&other=1&key=c&name[]=d&%zz", nil)
	raw := r.URL.RawQuery
	h(httptest.NewRecorder(), r)
	if want = "key=a+b&key=c&name%5B%5D=d"; got != want {
		t.Errorf("the handler reads %q, expected %q", got, want)
	}
	if r.URL.RawQuery != raw {
		t.Errorf("the query of the request has become %q", r.URL.RawQuery)
	}
	reading([]string{wholeQuery}, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.RawQuery })(httptest.NewRecorder(), r)
	if got != raw {
		t.Errorf("a handler that takes the whole query reads %q", got)
	}
	for _, e := range Endpoints() {
		if !slices.Contains(e.Params, paramFormat) {
			t.Errorf("%s %s does not take ?format=", e.Method, e.Path)
		}
	}
}

// TestQueryIsReadOnce holds that a page of many clients or keys reads its query once, and not
// once for each of them.
func TestQueryIsReadOnce(t *testing.T) {
	cfg := testConfig()
	query := "?" + strings.Repeat("state=x&", 1000) + "key=none"
	for path, handler := range map[string]func(n int) http.HandlerFunc{
		"/debug/streams": func(n int) http.HandlerFunc {
			cfg.Streams = func() []fanout.StreamInfo { return make([]fanout.StreamInfo, n) }
			return cfg.streams
		},
		"/debug/keys": func(n int) http.HandlerFunc {
			cfg.Keys = func() []cache.GroupInfo { return make([]cache.GroupInfo, n) }
			return cfg.keys
		},
	} {
		allocations := func(n int) float64 {
			h, r := handler(n), httptest.NewRequest(http.MethodGet, path+query, nil)
			return testing.AllocsPerRun(3, func() { h(httptest.NewRecorder(), r) })
		}
		if one, many := allocations(1), allocations(100); many > 2*one {
			t.Errorf("%s: %v allocations for one entry and %v for 100, expected about as many", path, one, many)
		}
	}
}
