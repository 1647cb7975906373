package hooks_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/hooks"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/secure"
)

// client sends requests with the files of a configuration.
func client(t *testing.T, cfg hooks.Config) *hooks.Client {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := hooks.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func about(check *rollout.Check) *rollout.Question {
	check.Name = "slo"
	if check.Timeout == 0 {
		check.Timeout = time.Minute
	}
	return &rollout.Question{
		Check: check, Policy: "standard", Key: "shop", Revision: "r-5f31c2a0", Step: 1, Steps: 4, Share: 0.01,
		Canaries: rollout.Asked{Clients: 300, IDs: []string{"envoy-1", "envoy-2"}}, Control: rollout.Asked{Clients: 1, IDs: []string{"envoy-3"}},
	}
}

func vector(values ...string) string {
	var all []string
	for i, v := range values {
		all = append(all, fmt.Sprintf(`{"metric":{"i":"%d"},"value":[1435781451.781,%q]}`, i, v))
	}
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(all, ",") + `]}}`
}

// TestPrometheus holds what answers of a Prometheus server mean. None but a number passes.
func TestPrometheus(t *testing.T) {
	for _, c := range []struct {
		name, answer string
		status       int // 0 for 200
		outcome      rollout.Outcome
		reply        rollout.Reply
		text         string // in that of the result
	}{
		{"a good value", vector("0.001"), 0, rollout.Passes, rollout.Decisive, "the value is 0.001, the step fails if it is > 0.01"},
		{"a bad value", vector("0.2"), 0, rollout.Fails, rollout.Decisive, "the value is 0.2"},
		{"infinite", vector("+Inf"), 0, rollout.Fails, rollout.Decisive, "the value is +Inf"},
		{"a scalar", `{"status":"success","data":{"resultType":"scalar","result":[1,"0.2"]}}`, 0, rollout.Fails, rollout.Decisive, "0.2"},
		{"with a warning", strings.Replace(vector("0"), `"data"`, `"warnings":["x"],"data"`, 1), 0, rollout.Passes, rollout.Decisive, "0"},
		{"no value", vector(), 0, rollout.NotEnough, rollout.Empty, "the query has no value"},
		{"not a number", vector("NaN"), 0, rollout.NotEnough, rollout.Empty, "NaN"},
		{"several values", vector("0", "1", "0"), 0, rollout.NotEnough, rollout.Empty, "has 3 values, expected one"},
		{"a range", `{"status":"success","data":{"resultType":"matrix","result":[]}}`, 0, rollout.NotEnough, rollout.Unreachable, `a value of type "matrix"`},
		{"a text", `{"status":"success","data":{"resultType":"string","result":[1,"0"]}}`, 0, rollout.NotEnough, rollout.Unreachable, `a value of type "string"`},
		{"a histogram", `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"1"}]}]}}`, 0, rollout.NotEnough, rollout.Unreachable, "no number, such as a histogram"},
		{"null", `{"status":"success","data":{"resultType":"vector","result":[{"value":null}]}}`, 0, rollout.NotEnough, rollout.Unreachable, "no number"},
		{"a scalar null", `{"status":"success","data":{"resultType":"scalar","result":null}}`, 0, rollout.NotEnough, rollout.Unreachable, "no pair"},
		{"words", vector("zero"), 0, rollout.NotEnough, rollout.Unreachable, "is no number"},
		{"a number without quotes", strings.ReplaceAll(vector("0"), `"0"]`, `0]`), 0, rollout.NotEnough, rollout.Unreachable, "is no string"},
		{"a sample without a time", `{"status":"success","data":{"resultType":"scalar","result":["0"]}}`, 0, rollout.NotEnough, rollout.Unreachable, "no pair"},
		{"a vector that is none", `{"status":"success","data":{"resultType":"vector","result":{}}}`, 0, rollout.NotEnough, rollout.Unreachable, ""},
		{"not a success", `{"status":"error","data":{"resultType":"scalar","result":[1,"0"]}}`, 0, rollout.NotEnough, rollout.Unreachable, `the status "error"`},
		{"nothing", ``, 0, rollout.NotEnough, rollout.Unreachable, "not that of the HTTP API"},
		{"empty", `{}`, 0, rollout.NotEnough, rollout.Unreachable, `the status ""`},
		{"a page", `<html>sign in</html>`, 0, rollout.NotEnough, rollout.Unreachable, "not that of the HTTP API"},
		{"deep", strings.Repeat("[", 60_000), 0, rollout.NotEnough, rollout.Unreachable, "not that of the HTTP API"},
		{"huge", vector(slices.Repeat([]string{"0"}, 2000)...), 0, rollout.NotEnough, rollout.Unreachable, "more than 65536 bytes"},
		{"an error", `{"status":"error","errorType":"bad_data","error":"1:5: parse error"}`, 400, rollout.NotEnough, rollout.Unreachable, "HTTP status 400: bad_data: 1:5: parse error"},
		{"a good value with an error", vector("0"), 503, rollout.NotEnough, rollout.Unreachable, "HTTP status 503"},
		{"a secret", `{"status":"error","errorType":"x","error":"http://me:hunter2@host/"}`, 422, rollout.NotEnough, rollout.Unreachable, "[redacted]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				_, _ = io.WriteString(w, c.answer)
			}))
			defer s.Close()
			got := client(t, hooks.Config{}).Ask(t.Context(), about(&rollout.Check{Prometheus: s.URL, Query: "q", Fail: "> 0.01"}))
			if got.Name != "slo" || got.Outcome != c.outcome || got.Reply != c.reply || !strings.Contains(got.Text, c.text) || strings.Contains(got.Text, "hunter2") || len(got.Text) > 300 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestQuery holds what a Prometheus server is asked, below the path of its URL, and that clients that no
// query can be about are no answer.
func TestQuery(t *testing.T) {
	asked := make(chan url.Values, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/prom/api/v1/query" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		asked <- r.PostForm
		_, _ = io.WriteString(w, vector("0"))
	}))
	defer s.Close()
	q := about(&rollout.Check{Prometheus: s.URL + "/prom/", Query: `e{k="{{key}}",p=~"{{canaries}}"} / e{p=~"{{control}}"}`, Fail: "> 1"})
	if got := client(t, hooks.Config{}).Ask(t.Context(), q); got.Outcome != rollout.Passes {
		t.Fatalf("%+v", got)
	}
	form := <-asked
	if got, want := form.Get("query"), `e{k="shop",p=~"envoy-1|envoy-2"} / e{p=~"envoy-3"}`; got != want || form.Get("timeout") != "60.000" {
		t.Errorf("%v", form)
	}
	q.Control = rollout.Asked{}
	if got := client(t, hooks.Config{}).Ask(t.Context(), q); got.Outcome != rollout.NotEnough || got.Reply != rollout.Empty || !strings.Contains(got.Text, "{{control}}") {
		t.Errorf("without a control group: %+v", got)
	}
}

// TestWebhook holds what a webhook is sent, and what its answers mean.
func TestWebhook(t *testing.T) {
	for _, c := range []struct {
		answer  string
		status  int
		outcome rollout.Outcome
		reply   rollout.Reply
		text    string
	}{
		{`{"answer":"pass"}`, 200, rollout.Passes, rollout.Decisive, "the webhook answers pass"},
		{`{"answer":"fail","reason":"smoke test 7 failed"}`, 200, rollout.Fails, rollout.Decisive, "smoke test 7 failed"},
		{`{"answer":"fail","reason":"` + strings.Repeat("x ", 5000) + `"}`, 200, rollout.Fails, rollout.Decisive, "x x"},
		{`{"answer":"wait","reason":"12 of 40 tests"}`, 202, rollout.NotEnough, rollout.MoreTime, "12 of 40 tests"},
		{`{"answer":"pass"}`, 500, rollout.NotEnough, rollout.Unreachable, "HTTP status 500"},
		{`{"answer":"pass"}`, 404, rollout.NotEnough, rollout.Unreachable, "HTTP status 404"},
		{`{"answer":"PASS"}`, 200, rollout.NotEnough, rollout.Unreachable, `the answer is "PASS", expected pass, fail or wait`},
		{`{"answer":true}`, 200, rollout.NotEnough, rollout.Unreachable, "not JSON such as"},
		{`{"answer":"pass"`, 200, rollout.NotEnough, rollout.Unreachable, "not JSON such as"},
		{`{"answer":"pass"} {"answer":"fail"}`, 200, rollout.NotEnough, rollout.Unreachable, "not JSON such as"},
		{`[]`, 200, rollout.NotEnough, rollout.Unreachable, "not JSON such as"},
		{``, 200, rollout.NotEnough, rollout.Unreachable, "not JSON such as"},
		{`null`, 200, rollout.NotEnough, rollout.Unreachable, `the answer is ""`},
	} {
		var sent []byte
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent, _ = io.ReadAll(r.Body)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		q := about(&rollout.Check{Webhook: s.URL + "/hook"})
		for i := range 2 * rollout.MaxAsked {
			q.Control.IDs = append(q.Control.IDs, fmt.Sprint("other-", i))
		}
		got := client(t, hooks.Config{}).Ask(t.Context(), q)
		s.Close()
		if got.Outcome != c.outcome || got.Reply != c.reply || !strings.Contains(got.Text, c.text) || len(got.Text) > 300 {
			t.Errorf("%s: %+v", c.answer, got)
		}
		var is map[string]any
		if err := json.Unmarshal(sent, &is); err != nil {
			t.Fatal(err)
		}
		control := is["control"].(map[string]any)
		if n := len(control["ids"].([]any)); n != rollout.MaxAsked {
			t.Errorf("%d ids, expected %d", n, rollout.MaxAsked)
		}
		delete(is, "control")
		want := map[string]any{
			"check": "slo", "policy": "standard", "key": "shop", "revision": "r-5f31c2a0", "step": 1.0, "steps": 4.0, "share": "1%", "final": false,
			"canaries": map[string]any{"clients": 300.0, "ids": []any{"envoy-1", "envoy-2"}},
		}
		if fmt.Sprint(is) != fmt.Sprint(want) {
			t.Errorf("%v, expected %v", is, want)
		}
	}
}

// TestUnreachable holds that a system that cannot be asked is no answer, and that no error has its URL.
func TestUnreachable(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/drips/secret/hunter2" {
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, `{"answer":`)
			w.(http.Flusher).Flush()
		}
		<-release
	}))
	defer slow.Close()
	defer close(release)
	redirects := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	headers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
	}))
	defer headers.Close()
	secure := httptest.NewTLSServer(elsewhere.Config.Handler)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	defer secure.Close()
	for at, want := range map[string]string{
		slow.URL: "no answer within 10ms", slow.URL + "/drips": "no answer within 10ms", gone.URL: "connection refused",
		redirects.URL: "HTTP status 307, a redirect, which is not followed", headers.URL: "header", secure.URL: "certificate",
	} {
		check := &rollout.Check{Webhook: strings.Replace(at, "://", "://me:hunter2@", 1) + "/secret/hunter2", Timeout: time.Minute}
		if strings.HasPrefix(at, slow.URL) {
			check.Timeout = 10 * time.Millisecond
		}
		for range 2 { // the other one
			got := client(t, hooks.Config{}).Ask(t.Context(), about(check))
			if got.Outcome != rollout.NotEnough || got.Reply != rollout.Unreachable || !strings.Contains(got.Text, want) || strings.Contains(got.Text, "hunter2") || strings.Contains(got.Text, "me@") {
				t.Errorf("%s: %+v, expected %s", at, got, want)
			}
			check.Prometheus, check.Webhook, check.Query, check.Fail = check.Webhook, "", "up", "> 1"
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if got := client(t, hooks.Config{}).Ask(ended, about(&rollout.Check{Webhook: elsewhere.URL})); got.Reply != rollout.Unreachable {
		t.Errorf("after the end: %+v", got)
	}
}

// TestCredentials holds what the relay proves to another system, and which certificates it accepts: a token
// of a file that may change, or the user of the URL, over TLS with an authority of a file.
func TestCredentials(t *testing.T) {
	var authorization string
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		authorization = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, `{"answer":"pass"}`)
	}))
	defer s.Close()
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	token := write("token", "a-token-of-a-test\n")
	c := client(t, hooks.Config{TLS: secure.Config{CAFile: ca}, TokenFiles: []string{token}})
	for want, check := range map[string]*rollout.Check{
		"":                         {Webhook: s.URL},
		"Bearer a-token-of-a-test": {Webhook: s.URL, TokenFile: token},
		"Basic bWU6aHVudGVyMg==":   {Webhook: strings.Replace(s.URL, "://", "://me:hunter2@", 1)},
	} {
		if got := c.Ask(t.Context(), about(check)); got.Outcome != rollout.Passes || authorization != want {
			t.Errorf("%+v with %q, expected %q", got, authorization, want)
		}
	}
	if _, err := hooks.New(hooks.Config{TokenFiles: []string{"missing"}, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("a token file that is missing")
	}
	if _, err := hooks.New(hooks.Config{TLS: secure.Config{CAFile: token}, Logger: slog.New(slog.DiscardHandler)}); err == nil {
		t.Error("an authority that is none")
	}
}
