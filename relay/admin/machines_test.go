package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMachines: programs get health, readiness and metrics under any name of the
// host, and neither anything else nor the reason, which may hold addresses.
func TestMachines(t *testing.T) {
	var reason error
	handler := Machines(func() error { return reason }, testConfig().Metrics)
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://relay.example"+path, nil)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "xdsrelay_test 0\n"} {
		if w := ask("GET", path); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
		if code := ask("POST", path).Code; code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, code)
		}
	}
	reason = errors.New("no key has any state: dial 10.1.2.3:18000")
	if w := ask("GET", "/readyz"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "10.1.2.3") {
		t.Errorf("/readyz of a node that is not ready: %d %q", w.Code, w.Body)
	}
	if code := ask("GET", "/healthz").Code; code != http.StatusOK {
		t.Errorf("/healthz of a node that is not ready: %d", code)
	}
	for _, p := range append(pages(testConfig()), page{path: "/"}, page{path: "/drain"}) {
		if p.path == "/healthz" || p.path == "/readyz" || p.path == "/metrics" {
			continue
		}
		if code := ask("GET", p.path).Code; code != http.StatusNotFound {
			t.Errorf("%s: %d", p.path, code)
		}
	}
}
