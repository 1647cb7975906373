package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/csds"
)

// TestOrderParametersAreReadable: the log and the events show parameters as an operator gave them.
func TestOrderParametersAreReadable(t *testing.T) {
	for query, want := range map[string]string{
		"":                            "",
		"client=envoy-7&dry_run=true": "client=envoy-7, dry_run=true",
		"reason=bad+routes+since+14%3A03&key=shop%2Feu": `key=shop/eu, reason="bad routes since 14:03"`,
		"key=a%2C+dry_run%3Dtrue":                       `key="a, dry_run=true"`,
		"key=a%0Aline":                                  `key="a\nline"`,
		"key=%zz":                                       "%zz",
	} {
		r := &http.Request{URL: &url.URL{RawQuery: query}}
		if got := parameters(r); got != want && !strings.Contains(got, "%zz") {
			t.Errorf("%s: got %q, expected %q", query, got, want)
		}
	}
}

// TestRepeatedOrdersAreOneEvent: a command that sends its order each second is an event once a minute, so
// that it does not displace all others; the log has each.
func TestRepeatedOrdersAreOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cfg := testConfig()
		cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
		apply := cfg.audited("/rules/apply")(func(http.ResponseWriter, *http.Request) {})
		kick := cfg.audited("/kick")(func(http.ResponseWriter, *http.Request) {})
		send := func(to http.HandlerFunc, path string) {
			to(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil))
		}
		for range 90 {
			send(apply, "/rules/apply?most=100")
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
		}
		send(apply, "/rules/apply?most=10")
		send(kick, "/kick?client=a")
		send(kick, "/kick?client=a")
		if lines, events := bytes.Count(log.Bytes(), []byte("\n")), bytes.Count(log.Bytes(), []byte(`"event":"operator.command"`)); lines != 93 || events != 5 {
			t.Errorf("%d lines and %d events, expected 93 and 5: two of 90 orders, one with another pace, and each kick", lines, events)
		}
	})
}

// asked are POSTs that change nothing.
var asked = []string{csds.Path, "/tier/explain"}

// TestOrdersAreLogged: each order writes one line with who gave it, what it is and what
// became of it, also if it was refused or failed. That covers all endpoints that take a
// POST: no other is registered than orders, and those that change nothing.
func TestOrdersAreLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := testConfig()
	cfg.Log = slog.New(slog.NewJSONHandler(&log, nil))
	cfg.Access = Access{Token: token(t, operatorToken), ReadToken: token(t, readerToken)}
	ask := serve(t, cfg)
	given := func(path, token, parameters string) (line map[string]any, code int) {
		t.Helper()
		log.Reset()
		code = ask("POST", path+parameters, RequestHeader, "1", "Authorization", "Bearer "+token).code
		if n := bytes.Count(log.Bytes(), []byte("\n")); n != 1 {
			t.Fatalf("%s wrote %d lines: %s", path, n, log.String())
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), token) {
			t.Errorf("%s: the token is in the log", path)
		}
		return line, code
	}
	checked := func(line map[string]any, code int, order, identity, result string) {
		t.Helper()
		peer, _ := line["peer"].(string)
		if line["order"] != order || line["identity"] != identity || line["result"] != result || line["status"] != float64(code) || !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("%s was answered %d, and logged as %v; expected identity %q and result %q", order, code, line, identity, result)
		}
	}
	parameters := map[string]string{"/removals/approve": "?key=a", "/log/level": "?level=debug", "/kick": "?client=nobody", "/rules/apply": "?most=10", "/rollout/freeze": "?all=true&reason=test", "/rollout/unfreeze": "?all=true", "/rollout/undo": "?key=a&reason=test", "/rollout/approve": "?key=a", "/rollout/pause": "?key=a&reason=test", "/rollout/resume": "?key=a", "/rollout/abort": "?key=a&reason=test", "/rollout/retry": "?key=a", "/rollout/promote": "?key=a&reason=test", "/resend": "?client=nobody"}
	results := map[string]string{"/config/check": "failed", "/kick": "failed", "/resend": "failed"} // no rules, and no client has the name
	for _, o := range orders(cfg) {
		line, code := given(o.path, operatorToken, parameters[o.path])
		checked(line, code, o.path, "operator's token", cmp.Or(results[o.path], "done"))
		if line["parameters"] != strings.ReplaceAll(strings.TrimPrefix(parameters[o.path], "?"), "&", ", ") {
			t.Errorf("%s: the parameters are %q", o.path, line["parameters"])
		}
		line, code = given(o.path, readerToken, parameters[o.path])
		if code != http.StatusForbidden {
			t.Errorf("%s of a reader: %d", o.path, code)
		}
		checked(line, code, o.path, "reader's token", "refused")
	}
	line, code := given("/log/level", operatorToken, "?level=x")
	checked(line, code, "/log/level", "operator's token", "failed")
	if line, _ := given("/removals/approve", operatorToken, "?key=a&password=hunter2"); strings.Contains(line["parameters"].(string), "hunter2") {
		t.Errorf("the parameters are %q", line["parameters"])
	}

	source, err := os.ReadFile("handler.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`mux\.Handle(?:Func)?\("POST (?:"\+)?([^",]*)`).FindAllStringSubmatch(string(source), -1) {
		if path := m[1]; path != "o.path" && path != "csds.Path" && !slices.Contains(asked, path) {
			t.Errorf("POST %s is not among orders: nothing is logged of it", path)
		}
	}
}
