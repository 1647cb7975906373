package cache

import (
	"strings"
	"testing"
	"time"
)

// TestSnapshot: what an operator sees of a key.
func TestSnapshot(t *testing.T) {
	w := start(t, Config{})
	w.client(clusters, true)
	w.client(clusters, true)
	w.client(clusters, false, "a", "z")
	w.client(endpoints, false, "e")
	w.feed.Up()
	w.apply(clusters, res("a", "1"), res("b", "1"))
	w.remove(clusters, "b")
	w.apply(endpoints, res("other", "1"))
	all := w.cache.GroupInfos()
	if len(all) != 1 || len(all[0].Tables) != 2 {
		t.Fatalf("%+v", all)
	}
	g, c := all[0], all[0].Tables[0]
	if g.Key != "key" || g.Clients != 1 || !g.Connected || g.Idle || g.Error != "" || g.Bytes != g.Tables[0].Bytes+g.Tables[1].Bytes {
		t.Errorf("%+v", g)
	}
	if c.TypeURL != clusters.URL || c.Version == "" || c.Generation != 3 || c.Resources != 1 || c.Tombstones != 1 || c.Bytes == 0 ||
		c.Subscriptions != 2 || c.Watchers != 3 || !c.Wildcard || c.Names != 2 || c.Updates != 2 || c.Changes != 3 {
		t.Errorf("%+v", c)
	}
	if e := g.Tables[1]; e.Ignored != 1 || e.Generation != 0 {
		t.Errorf("%+v", e)
	}
	if table := w.group.Table(clusters); !table.Reaches(3) || table.Reaches(4) {
		t.Error("Reaches")
	}
}

// TestKeysDown: a key is down once it lacks a stream for a reason, since the first of its streams
// was lost; not during the first attempt, while idle, or for a stream without demand.
func TestKeysDown(t *testing.T) {
	early, late := time.Unix(100, 0), time.Unix(200, 0)
	up, trying := StreamInfo{Wanted: true, Connected: true, Since: late}, StreamInfo{Wanted: true, Since: late}
	lost := func(since time.Time) StreamInfo { return StreamInfo{Wanted: true, Since: since, Error: "refused"} }
	unwanted := StreamInfo{Since: early, Error: "refused"}
	for _, tc := range []struct {
		name string
		g    GroupInfo
		want time.Time
	}{
		{"connected", GroupInfo{Streams: []StreamInfo{up}}, time.Time{}},
		{"trying", GroupInfo{Streams: []StreamInfo{trying}}, time.Time{}},
		{"lost", GroupInfo{Streams: []StreamInfo{lost(early)}}, early},
		{"the only one, with nothing wanted yet", GroupInfo{Streams: []StreamInfo{unwanted}}, early},
		{"idle", GroupInfo{Idle: true, Streams: []StreamInfo{lost(early)}}, time.Time{}},
		{"one of two", GroupInfo{Streams: []StreamInfo{lost(early), up}}, early},
		{"both", GroupInfo{Streams: []StreamInfo{lost(late), lost(early)}}, early},
		{"one that nobody wants", GroupInfo{Streams: []StreamInfo{up, unwanted}}, time.Time{}},
	} {
		if since, down := tc.g.Down(); !since.Equal(tc.want) || down == tc.want.IsZero() {
			t.Errorf("%s: down %v since %v, expected since %v", tc.name, down, since, tc.want)
		}
	}
}

// TestCheckFindsDamage: the check reports a broken table.
func TestCheckFindsDamage(t *testing.T) {
	locked := func(damage func(*Table, *client)) func(*Table, *client) {
		return func(t *Table, c *client) {
			t.mu.Lock()
			defer t.mu.Unlock()
			damage(t, c)
		}
	}
	for want, damage := range map[string]func(*Table, *client){
		"beyond":                     func(*Table, *client) {},
		"not wanted":                 locked(func(t *Table, _ *client) { t.core.demand = t.core.newDemand() }),
		"no stream will request it":  locked(func(t *Table, _ *client) { t.core.demand.Discard("a") }),
		"another content":            func(_ *Table, c *client) { c.w.sub.names["x"] = struct{}{} },
		"counts 2":                   func(_ *Table, c *client) { c.w.sub.count++ },
		"but counts 7":               func(_ *Table, c *client) { c.w.sub.live = 7 },
		"waits":                      func(t *Table, _ *client) { t.core.waiting[&Subscription{}] = struct{}{} },
		"a subscription to it is at": func(_ *Table, c *client) { c.w.sub.gen = 0 },
		"that is gone":               locked(func(t *Table, _ *client) { t.core.demand.JoinWildcard(&Subscription{}) }),
		"the index denies":           locked(func(t *Table, c *client) { t.core.demand.JoinWildcard(c.w.sub) }),
	} {
		if want == "beyond" {
			damage, want = func(t *Table, _ *client) { t.entryOf("a").Gen = 99 }, "changed at generation 99"
		}
		t.Run(want, func(t *testing.T) {
			w := newWorld(t, Config{})
			defer w.cache.Close()
			c := w.client(clusters, false, "a", "z")
			w.apply(clusters, aliased("a", "1", "alias"))
			w.remove(clusters, "z")
			if wrong := w.cache.Check(); len(wrong) > 0 {
				t.Fatal(wrong)
			}
			damage(c.table, c)
			if wrong := w.cache.Check(); !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Fatalf("%q does not say %q", wrong, want)
			}
		})
	}
}
