package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
)

// TestLogLevels: the levels of the log are shown, and change by a request that no web
// page can have made.
func TestLogLevels(t *testing.T) {
	levels := logs.NewLevels(slog.LevelInfo)
	cfg := testConfig()
	cfg.Levels = levels
	ask := serve(t, cfg)
	order := func(query string, header ...string) (int, string) {
		a := ask(http.MethodPost, "/log/level"+query, header...)
		return a.code, a.text
	}
	if code, text := order("?part=upstream&level=debug", RequestHeader, "1"); code != http.StatusOK || !strings.Contains(text, "upstream         debug") {
		t.Errorf("%d %s", code, text)
	}
	if levels.Get()[logs.Origin] != slog.LevelDebug {
		t.Errorf("the levels are %v", levels.Get())
	}
	for _, bad := range []string{"?part=nobody&level=debug", "?part=upstream&level=loud", ""} {
		if code, text := order(bad, RequestHeader, "1"); code != http.StatusBadRequest || !strings.Contains(text, "expected") {
			t.Errorf("%q: %d %s", bad, code, text)
		}
	}
	if code, _ := order("?part=upstream&level=info"); code != http.StatusForbidden || levels.Get()[logs.Origin] != slog.LevelDebug {
		t.Errorf("without the header: %d, %v", code, levels.Get())
	}
	if a := ask(http.MethodGet, "/log?format=json"); a.code != http.StatusOK || !strings.Contains(a.text, `"upstream": "debug"`) {
		t.Errorf("%d %s", a.code, a.text)
	}
}

// TestSettings: what became of the configuration is shown, and an order to read it
// again says whether that went well.
func TestSettings(t *testing.T) {
	state := ops.Settings{File: "relay.yaml", Loaded: time.Unix(0, 0), Restart: []string{"listener.address"}}
	var err error
	cfg := testConfig()
	cfg.Settings, cfg.Reload = func() ops.Settings { return state }, func() (ops.Settings, error) { return state, err }
	ask := serve(t, cfg)
	order := func() (int, string) {
		a := ask(http.MethodPost, "/config/reload", RequestHeader, "1")
		return a.code, a.text
	}
	if code, text := order(); code != http.StatusOK || !strings.Contains(text, "effective after a restart: listener.address") || strings.Contains(text, "rejected") {
		t.Errorf("%d %s", code, text)
	}
	err = errors.New("the configuration comes from nowhere")
	if code, text := order(); code != http.StatusConflict || !strings.Contains(text, "nowhere") {
		t.Errorf("%d %s", code, text)
	}
	state.Rejected, state.RejectedAt = "line 1\nline 2\x1b[2J", time.Unix(60, 0)
	if code, text := order(); code != http.StatusUnprocessableEntity || !strings.Contains(text, "  line 1\n  line 2?[2J\n") || !strings.Contains(text, "1970-01-01T00:01:00Z") {
		t.Errorf("%d %s", code, text)
	}
	if a := ask(http.MethodGet, "/config?format=json"); a.code != http.StatusOK || !strings.Contains(a.text, `"rejected": "line 1`) {
		t.Errorf("%d %s", a.code, a.text)
	}
}
