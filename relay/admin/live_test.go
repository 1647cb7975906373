package admin

import (
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/series"
)

// TestLivePage holds that a browser gets the live page and others the list of endpoints,
// that the files which the page names are there, and that what has not changed is not
// sent again.
func TestLivePage(t *testing.T) {
	ask := serve(t, testConfig())
	const browser = "text/html,application/xhtml+xml,*/*;q=0.8"
	if res := ask("GET", "/"); !strings.Contains(res.text, "/api/v1/live") {
		t.Errorf("no list of endpoints without a browser: %s", res.text)
	}
	home := ask("GET", "/", "Accept", browser)
	if home.code != 200 || home.header.Get("Vary") != "Accept" || strings.Contains(home.text, "<script>") || strings.Contains(home.text, "style=") {
		t.Errorf("the page: %d %v %s", home.code, home.header, home.text)
	}
	named := regexp.MustCompile(`(?:src|href)="(/ui/[^"]*)"`).FindAllStringSubmatch(home.text, -1)
	if len(named) < 3 {
		t.Errorf("the page names %v", named)
	}
	files, err := fs.Glob(uiFiles, "ui/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range named {
		files = append(files, "ui/"+path.Base(m[1]))
	}
	for _, file := range files {
		res := ask("GET", "/"+file)
		h := res.header
		if res.code != 200 || h.Get("Content-Type") != uiTypes[path.Ext(file)] || h.Get("ETag") == "" {
			t.Errorf("%s: %d %v", file, res.code, h)
		}
		policy := h.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: the policy is %s", file, policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Frame-Options") != "DENY" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", file, h)
		}
		if again := ask("GET", "/"+file, "If-None-Match", h.Get("ETag")); again.code != 304 || again.text != "" {
			t.Errorf("%s again: %d", file, again.code)
		}
		for _, bad := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "https://"} {
			if strings.Contains(res.text, bad) {
				t.Errorf("%s holds %s", file, bad)
			}
		}
	}
	for _, none := range []string{"/ui/", "/ui/none.js", "/ui/..%2fui.go", "/ui/%2e%2e/ui.go"} {
		if res := ask("GET", none); res.code != 404 {
			t.Errorf("%s: %d", none, res.code)
		}
	}
}

// TestLiveAPI holds what the page is told, and that it is told nothing twice.
func TestLiveAPI(t *testing.T) {
	cfg := testConfig()
	cfg.Tier.Nodes = func(context.Context) ([]ops.NodeState, []ops.Silent) {
		return []ops.NodeState{{
			Node: "n1", Sums: ops.Sums{Node: "n1", Clients: 3, Streams: 4, States: ops.Count{ops.Nacked: 1, ops.Synced: 2}},
			Totals:   series.Totals{BytesIn: 7},
			Progress: []ops.Progress{{Key: "a", URL: "u", Node: "n1", Reached: ops.Reached{Clients: 3, Acked: 2, Nacked: 1}}},
		}}, []ops.Silent{{Node: "n3", Error: "no route", Clients: 5}}
	}
	ask := serve(t, cfg)
	first := ask("GET", "/api/v1/live")
	var live ops.Live
	if err := json.Unmarshal([]byte(first.text), &live); err != nil {
		t.Fatalf("%v in %s", err, first.text)
	}
	if live.Self != "n1" || len(live.Nodes) != 4 || live.Nodes[2].State != "silent" || live.Nodes[2].Clients != 0 || live.Nodes[2].Streams != 5 || live.Clients.Clients != 3 || live.Clients.Unknown != 5 || live.Traffic.BytesIn != 7 || len(live.Updates) != 1 {
		t.Errorf("live: %s", first.text)
	}
	if res := ask("GET", "/api/v1/live", "If-None-Match", first.header.Get("ETag")); res.code != 304 || res.text != "" {
		t.Errorf("the same again: %d %s", res.code, res.text)
	}
	if res := ask("GET", "/api/v1/series?since=x"); res.code != 400 {
		t.Errorf("a bad since: %d", res.code)
	}
	if res := ask("GET", "/api/v1/series?since=5"); res.code != 200 || !strings.Contains(res.text, `"at":[]`) || !strings.Contains(res.text, `"silent":[{"node":"n3"`) {
		t.Errorf("series: %d %s", res.code, res.text)
	}
}

// TestLookPause holds that many who ask at the same time are one for the tier, and that
// who breaks off does not do so for others.
func TestLookPause(t *testing.T) {
	cfg := testConfig()
	var asked atomic.Int32
	answer := make(chan struct{})
	cfg.Tier.Nodes = func(ctx context.Context) ([]ops.NodeState, []ops.Silent) {
		asked.Add(1)
		if <-answer; ctx.Err() != nil {
			t.Error("the question was broken off")
		}
		return nil, nil
	}
	v := &watcher{cfg: cfg}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { v.look(gone) })
	}
	close(answer)
	all.Wait()
	v.at = v.at.Add(lookPause) // however slow this machine is
	v.look(t.Context())
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	v.at = v.at.Add(-3 * lookPause)
	if v.look(t.Context()); asked.Load() != 2 {
		t.Errorf("asked %d times after the pause", asked.Load())
	}
}
