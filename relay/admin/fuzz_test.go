package admin

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// FuzzAuthorization: whatever the header holds, only who shows a token as programs or
// browsers do has its rights.
func FuzzAuthorization(f *testing.F) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, header := range []string{
		"", "Bearer " + operatorToken, "bearer  " + readerToken + " ", "Bearer", "Bearer \x00", operatorToken, "Bearer " + operatorToken + "x",
		basic("any:" + operatorToken), basic(operatorToken), basic(":" + readerToken), "Basic !", "BASIC Og==", "Digest " + operatorToken,
	} {
		f.Add(header)
	}
	access := Access{Token: token(f, operatorToken), ReadToken: token(f, readerToken), RolloutToken: token(f, releaserToken)}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["Authorization"] = []string{header}
		want := noRole
		shown := shownIn(header)
		switch shown {
		case operatorToken:
			want = operator
		case readerToken:
			want = reader
		}
		if got := access.roleOf(r); got != want {
			t.Errorf("%q shows %q and has the role %d, expected %d", header, shown, got, want)
		}
	})
}

// shownIn is the token that a header shows, read in another way.
func shownIn(header string) string {
	switch low := strings.ToLower(header); {
	case strings.HasPrefix(low, "bearer "):
		return strings.TrimSpace(header[len("bearer "):])
	case strings.HasPrefix(low, "basic "):
		text, err := base64.StdEncoding.DecodeString(header[len("basic "):])
		if at := strings.IndexByte(string(text), ':'); err == nil && at >= 0 {
			return string(text[at+1:])
		}
	}
	return ""
}

// FuzzRequest: no request without a token gets more than the pages that are for
// everybody, and none that another web site could have made gets anything at all.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/debug/keys?key=a", "127.0.0.1:1", "", "", "1")
	f.Add("POST", "/removals/approve", "evil.test", "http://evil.test", "", "")
	f.Add("POST", "//drain/..", "localhost", "null", "same-origin", "x")
	f.Add("GET", "/readyz", "[::1%25x]", "", "cross-site", "1")
	f.Add("CONNECT", "/debug/pprof/cmdline", "[", "://", "none", "\n")
	cfg := testConfig()
	cfg.Access = Access{Token: token(f, operatorToken)}
	var ordered sync.Map // should stay empty
	cfg.Tier.Drain = func() (Draining, error) { ordered.Store("drain", true); return Draining{}, nil }
	handler := Handler(cfg)
	f.Fuzz(func(t *testing.T, method, target, host, origin, site, request string) {
		r, err := http.NewRequest(method, "http://any"+target, http.NoBody)
		if err != nil {
			return
		}
		r.Host, r.RemoteAddr = host, "127.0.0.1:2"
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", site)
		r.Header.Set(RequestHeader, request)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if !cfg.Access.isHere(host) || isForeign(r) {
			if w.Code != http.StatusForbidden {
				t.Errorf("another web site gets %d", w.Code)
			}
		} else if !open[r.URL.Path] && w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s without a token gets %d: %s", method, target, w.Code, w.Body)
		}
		ordered.Range(func(order, _ any) bool { t.Fatalf("an order was obeyed: %s", order); return false })
	})
}
