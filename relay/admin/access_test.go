package admin

import (
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"xdsrelay/relay/csds"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/secure"
)

const (
	operatorToken = "operator-0123456789"
	readerToken   = "reader-0123456789"
	releaserToken = "releaser-0123456789"
)

func token(t testing.TB, text string) *secure.Token {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := secure.NewToken(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestAccess holds what it takes to see each page and to give each order: nothing
// where no token is configured, and else a token of the right kind, which is no part
// of the URL.
func TestAccess(t *testing.T) {
	cfg := testConfig()
	without := serve(t, cfg)
	var refused atomic.Int32
	cfg.Access = Access{Token: token(t, operatorToken), ReadToken: token(t, readerToken), RolloutToken: token(t, releaserToken), Refused: func(_ *http.Request, _ Reason, why string) {
		refused.Add(1)
		if shown := redact.Text(why); shown != why {
			t.Errorf("in the log %q is %q", why, shown)
		}
	}}
	with := serve(t, cfg)

	bearer := func(token string) []string { return []string{RequestHeader, "1", "Authorization", "Bearer " + token} }
	basic := func(token string) []string {
		return []string{RequestHeader, "1", "Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+token))}
	}
	type call struct{ method, path string }
	var public, look, release, order []call
	for _, p := range pages(cfg) {
		c := call{"GET", p.path}
		switch {
		case open[p.path]:
			public = append(public, c)
		case strings.HasSuffix(p.path, "/profile"), strings.HasSuffix(p.path, "/trace"):
			order = append(order, call{"GET", p.path + "?seconds=1"})
		case strings.HasPrefix(p.path, profiles):
			order = append(order, c)
		default:
			look = append(look, c)
		}
	}
	look = append(look, call{"POST", csds.Path}, call{"POST", "/tier/explain"}, call{"GET", "/"}, call{"GET", "/debug/"}, call{"GET", "/ui/app.js"}, call{"GET", "/nothing"})
	for _, o := range orders(cfg) {
		c := call{"POST", o.path + "?key=a&level=info"}
		if strings.HasPrefix(o.path, "/rollout/") && o.path != "/rollout/promote" {
			release = append(release, c)
		} else {
			order = append(order, c)
		}
	}
	if len(release) != 8 {
		t.Errorf("%d orders about rollouts take the right for them, expected 8", len(release))
	}

	isRefused := func(code int) bool { return code == http.StatusUnauthorized || code == http.StatusForbidden }
	check := func(c call, who string, want int, header []string) {
		t.Helper()
		res := with(c.method, c.path, header...)
		if want != 0 && res.code != want || want == 0 && isRefused(res.code) {
			t.Errorf("%s %s for %s: %d %s", c.method, c.path, who, res.code, res.text)
		}
		if res.code == http.StatusUnauthorized && res.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s %s: no WWW-Authenticate", c.method, c.path)
		}
		if strings.Contains(res.text, operatorToken) || strings.Contains(res.text, readerToken) || strings.Contains(res.text, releaserToken) {
			t.Errorf("%s %s: the answer holds a token", c.method, c.path)
		}
	}
	for _, c := range public {
		check(c, "anybody", 0, nil)
	}
	for _, c := range slices.Concat(look, release, order) {
		check(c, "nobody", http.StatusUnauthorized, []string{RequestHeader, "1"})
		check(c, "a wrong token", http.StatusUnauthorized, bearer(operatorToken+"x"))
		check(c, "a wrong password", http.StatusUnauthorized, basic(""))
		check(c, "a token of another scheme", http.StatusUnauthorized, []string{"Authorization", "Digest " + operatorToken})
	}
	for _, c := range look {
		check(c, "a reader", 0, bearer(readerToken))
		check(c, "a releaser", 0, bearer(releaserToken))
		check(c, "an operator", 0, basic(operatorToken))
	}
	before := refused.Load()
	for _, c := range slices.Concat(release, order) {
		check(c, "a reader", http.StatusForbidden, bearer(readerToken))
	}
	for _, c := range order {
		check(c, "a releaser", http.StatusForbidden, bearer(releaserToken))
	}
	if n, want := refused.Load()-before, len(release)+2*len(order); int(n) != want {
		t.Errorf("%d of %d refusals were reported", n, want)
	}
	for _, c := range release {
		check(c, "a releaser", 0, basic(releaserToken))
	}
	for _, c := range slices.Concat(release, order) {
		if strings.Contains(c.path, "seconds") {
			continue // another test takes the time
		}
		check(c, "an operator", 0, bearer(operatorToken))
		if res := without(c.method, c.path, RequestHeader, "1"); isRefused(res.code) {
			t.Errorf("%s %s where there is no token: %d", c.method, c.path, res.code)
		}
	}
	for _, query := range []string{"token", "access_token", "authorization"} {
		check(call{"GET", "/debug/keys?" + query + "=" + operatorToken}, "a token in the URL", http.StatusUnauthorized, nil)
	}
}

// TestReadyTellsNoStranger: probes need no token, and why a node is not ready, which may
// name keys and addresses, is told to those alone who have one where it takes one.
func TestReadyTellsNoStranger(t *testing.T) {
	cfg := testConfig()
	cfg.Ready = func() error { return errors.New("10.0.0.1 is out of reach") }
	without := serve(t, cfg)
	cfg.Access = Access{Token: token(t, operatorToken), ReadToken: token(t, readerToken)}
	with := serve(t, cfg)
	for _, tc := range []struct {
		who    string
		res    answer
		reason bool
	}{
		{"anybody where there is no token", without("GET", "/readyz"), true},
		{"a stranger", with("GET", "/readyz"), false},
		{"a wrong token", with("GET", "/readyz", "Authorization", "Bearer x"), false},
		{"a reader", with("GET", "/readyz", "Authorization", "Bearer "+readerToken), true},
	} {
		if told := strings.Contains(tc.res.text, "10.0.0.1"); tc.res.code != http.StatusServiceUnavailable || told != tc.reason {
			t.Errorf("%s: %d %s", tc.who, tc.res.code, tc.res.text)
		}
	}
}

// TestOtherSites holds that no web site gets a browser to read the pages, to give an
// order or to put load on the node; a link may be followed.
func TestOtherSites(t *testing.T) {
	ask := serve(t, testConfig())
	navigate := []string{"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for _, tc := range []struct {
		method, path string
		header       []string
		want         int
	}{
		{"GET", "/debug/keys", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, 403},
		{"GET", "/debug/pprof/profile?seconds=1", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, 403},
		{"GET", "/debug/keys", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"GET", "/debug/keys", append([]string{"Sec-Fetch-Site", "cross-site"}, navigate...), 200},
		{"GET", "/debug/keys", append([]string{"Sec-Fetch-Site", "none"}, navigate...), 200},
		{"GET", "/debug/keys", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"GET", "/debug/keys", []string{"Origin", "https://evil.example"}, 403},
		{"GET", "/debug/keys", []string{"Origin", "null"}, 403},
		{"POST", csds.Path, append([]string{"Sec-Fetch-Site", "cross-site"}, navigate...), 403},
		{"POST", "/drain", append([]string{"Sec-Fetch-Site", "cross-site", RequestHeader, "1"}, navigate...), 403},
		{"POST", "/drain", []string{"Origin", "http://127.0.0.1:1", RequestHeader, "1"}, 403},
		{"POST", "/drain", []string{"Content-Type", "application/x-www-form-urlencoded"}, 403},
		{"POST", "/removals/approve?key=a", nil, 403},
		{"POST", "/removals/approve?key=a", []string{"Sec-Fetch-Site", "same-origin", RequestHeader, "1"}, 200},
		{"GET", "/drain", []string{RequestHeader, "1"}, 405},
		{"POST", "/reconnect", nil, 403},
		{"GET", "/reconnect", []string{RequestHeader, "1"}, 405},
		{"GET", "/removals/approve?key=a", []string{RequestHeader, "1"}, 405},
	} {
		if res := ask(tc.method, tc.path, tc.header...); res.code != tc.want {
			t.Errorf("%s %s with %v: %d %s, want %d", tc.method, tc.path, tc.header, res.code, res.text, tc.want)
		}
	}
}

// TestHosts holds that names of the configuration may be used, and any with TLS.
func TestHosts(t *testing.T) {
	cfg := testConfig()
	cfg.Access.Hosts = []string{"relay.example"}
	ask := serve(t, cfg)
	for host, want := range map[string]int{"relay.example": 200, "RELAY.example:19000": 200, "127.0.0.1": 200, "a.relay.example": 403, "evil.example": 403} {
		if code := ask("GET", "/debug/keys", "Host", host).code; code != want {
			t.Errorf("%s: %d, want %d", host, code, want)
		}
	}
	cfg.Access = Access{AnyHost: true}
	if code := serve(t, cfg)("GET", "/debug/keys", "Host", "any.example").code; code != http.StatusOK {
		t.Errorf("any name: %d", code)
	}
}

// TestCommandLine holds that no password of an argument is shown.
func TestCommandLine(t *testing.T) {
	cfg := testConfig()
	args := os.Args
	defer func() { os.Args = args }()
	os.Args = []string{"xdsrelay", "run", "--redis", "redis://app:hunter2@cache:6379"}
	res := serve(t, cfg)("GET", "/debug/pprof/cmdline")
	if strings.Contains(res.text, "hunter2") || !strings.Contains(res.text, "--redis\nredis://[redacted]@cache:6379\n") {
		t.Errorf("the command line is %q", res.text)
	}
}
