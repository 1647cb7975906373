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
	"time"

	"xdsrelay/relay/fleet"
	"xdsrelay/relay/series"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
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
	cfg.Tier.Nodes = func(context.Context) ([]NodeState, []Silent) {
		return []NodeState{{
			Node: "n1", Sums: fleet.Sums{Node: "n1", Clients: 3, Streams: 4, States: fleet.Count{fleet.Nacked: 1, fleet.Synced: 2}},
			Totals:   series.Totals{BytesIn: 7},
			Progress: []fleet.Progress{{Key: "a", URL: "u", Node: "n1", Reached: fleet.Reached{Clients: 3, Acked: 2, Nacked: 1}}},
		}}, []Silent{{Node: "n3", Error: "no route", Clients: 5}}
	}
	ask := serve(t, cfg)
	first := ask("GET", "/api/v1/live")
	var live Live
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
	cfg.Tier.Nodes = func(ctx context.Context) ([]NodeState, []Silent) {
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

// TestWarnings holds that everything that an operator should look at is told, with the
// node, since when and why, the errors first.
func TestWarnings(t *testing.T) {
	now := time.Now()
	o := observed{
		silent: []Silent{{Node: "d", Error: "no route", Clients: 9}},
		members: Members{
			Self:    "a",
			Members: []shard.Member{{Name: "a"}, {Name: "b", Status: shard.Status{Draining: true}}, {Name: "c", Status: shard.Status{Cut: true}}, {Name: "d"}},
			Missing: []fleet.Missing{
				{Member: shard.Member{Name: "e"}, Listed: true, Error: "refused"}, {Member: shard.Member{Name: "f"}, Error: "no answer"},
				{Member: shard.Member{Name: "g", Status: shard.Status{Draining: true}}, Listed: true, Error: "refused"}, {Member: shard.Member{Name: "d"}, Listed: true},
			},
			Differences: []terms.Difference{{Node: "b", From: "a", Parts: []string{"authorize", "origin"}}},
		},
		answers: []NodeState{
			{
				Node: "a", Redis: &store.State{Since: now, Error: "no answer"}, Unheard: now.Add(-time.Minute), NotReady: "no key has any state", Settings: Settings{Refused: "line 3: bad", RefusedAt: now, Restart: []string{"listen.address"}},
				Keys: KeySums{Down: 2, DownSince: now, DownError: "refused", Stale: 1, Held: 3, Empty: 2}, LastGood: "no space left", LastGoodSince: now, Problems: []string{"x.json: bad"}, Sums: fleet.Sums{States: fleet.Count{fleet.Nacked: 1}},
			},
			{Node: "b", NotReady: "draining", Unreachable: []string{"10.0.0.2:1: refused"}, Redis: &store.State{Up: true, Error: "READONLY"}},
			{Node: "c", CutSince: now, Keys: KeySums{Down: 1}, Certificates: []BadCertificate{
				{Use: "listen", Until: time.Unix(3600, 0)}, {Use: "origin", Early: true, From: time.Unix(7200, 0)}, {Use: "tier.peer", Ended: true, Until: now},
			}, Unreachable: []string{"10.0.0.1:1: refused"}, Apart: []string{"x.Y"}, Redis: &store.State{Up: true}},
			{Node: "h", Redis: &store.State{Error: "NOAUTH no", Problem: "Redis requires a password", Hint: "set one"}},
		},
	}
	var got []string
	for _, w := range o.warnings(nil) {
		got = append(got, w.Level+" "+w.Kind+" "+w.Text+" | "+w.Detail)
	}
	want := []string{
		"error silence Node d does not answer; how its 9 streams stand is not known | no route",
		"error node Node e, which tier.members names, does not answer | refused",
		"error config Node a refused its new configuration; the one before stays in force | line 3: bad",
		"error redis Redis is out of reach for node a; clients are served all the same | no answer",
		"error origin Node a has no stream for 2 keys; clients keep what they have | refused",
		"error files Node a cannot use files of its directory | x.json: bad",
		"error empty Node a has no configuration for 2 keys with clients: the control plane is unreachable, and no node of the tier that could be asked has it | ",
		"error last_good Node a cannot write the last known good state; a restart while the control plane is unreachable would serve an older one. Check last_good.directory or tier.redis | no space left",
		"error node Node a is not ready for clients | no key has any state",
		"error redis Redis refuses what node b asks of it | READONLY",
		"error certificate The certificate of node c for origin is good from 1970-01-01T02:00:00Z on; who verifies it does not connect | ",
		"error certificate The certificate of node c for tier.peer has ended; who verifies it does not connect | ",
		"error origin Node c cannot reach the origin, and has no stream for 1 key; clients keep what they have | 10.0.0.1:1: refused",
		"error redis Node h cannot use Redis: Redis requires a password; clients are served all the same | set one; Redis answered: NOAUTH no",
		"error clients 1 client rejects what was sent | ",
		"warning node Node f disappeared without draining, and does not answer | no answer",
		"warning node Node g, which tier.members names, has ended | refused",
		"warning node Node b is draining: it hands its keys over, sends its clients away, and ends | ",
		"warning differs Node b has another configuration than node a, in what all nodes must have in common | authorize, origin",
		"warning config Node a has to be restarted for a part of its configuration | listen.address",
		"warning node Node a cannot find out who is in the tier, and goes by what was so then | ",
		"warning stale Node a serves the last known good state of 1 key, which the origin has not confirmed | ",
		"warning held Node a holds back removals of 3 keys; 'xdsrelay release KEY' does them | ",
		"warning origin Node b cannot reach a server of the control plane | 10.0.0.2:1: refused",
		"warning certificate The certificate of node c for listen ends at 1970-01-01T01:00:00Z, and has not been renewed | ",
		"warning types Clients of node c ask for types that the control plane seems not to know; it ends the streams on which it is asked for them | x.Y",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := (observed{members: Members{Self: "a"}}).live(); len(all.Nodes) != 1 || len(all.Warnings) != 0 {
		t.Errorf("a node on its own: %+v", all)
	}
}

// TestKeyQuery holds that pages of keys join without gaps, whichever node has which.
func TestKeyQuery(t *testing.T) {
	rows := map[string][]string{"n1": {"a", "b", "c", "e"}, "n2": {"B2", "d", "e", "f"}}
	var seen []string
	q := KeyQuery{Limit: 2}
	for range 10 {
		there := make(map[string]bool)
		for _, node := range []string{"n1", "n2"} {
			var own []NodeKey
			for _, key := range rows[node] {
				if q.Wants(key) {
					own = append(own, NodeKey{Key: key})
				}
			}
			for _, row := range q.Rows(own) {
				there[row.Key] = true
			}
		}
		var all Keys
		for _, key := range []string{"B2", "a", "b", "c", "d", "e", "f"} {
			if there[key] {
				all.Keys = append(all.Keys, Key{Key: key})
			}
		}
		page := q.Page(all)
		for _, k := range page.Keys {
			seen = append(seen, k.Key)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if got := strings.Join(seen, " "); got != "B2 a b c d e f" {
		t.Errorf("pages give %s", got)
	}
	if q := (KeyQuery{Search: "b"}); !q.Wants("B2") || q.Wants("a") {
		t.Error("letters of any case are searched for")
	}
	if _, err := ParseKeyQuery(map[string][]string{"limit": {"1001"}}); err == nil {
		t.Error("a page of 1001 keys")
	}
}
