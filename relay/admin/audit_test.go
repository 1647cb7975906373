package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/csds"
)

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
	parameters := map[string]string{"/removals/approve": "?key=a", "/log/level": "?level=debug", "/kick": "?client=nobody", "/rules/apply": "?most=10", "/rollout/freeze": "?all=true&reason=test", "/rollout/unfreeze": "?all=true", "/rollout/undo": "?key=a&reason=test", "/resend": "?client=nobody"}
	results := map[string]string{"/config/check": "failed", "/kick": "failed", "/resend": "failed"} // no rules, and no client has the name
	for _, o := range orders(cfg) {
		line, code := given(o.path, operatorToken, parameters[o.path])
		checked(line, code, o.path, "operator's token", cmp.Or(results[o.path], "done"))
		if line["parameters"] != strings.TrimPrefix(parameters[o.path], "?") {
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
