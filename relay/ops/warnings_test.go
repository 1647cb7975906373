package ops

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// TestWarnings holds that everything that an operator should look at is told, with the
// node, since when and why, the errors first.
func TestWarnings(t *testing.T) {
	now := time.Now()
	o := Observed{
		Silent: []Silent{{Node: "d", Error: "no route", Clients: 9}},
		Members: Members{
			Self:    "a",
			Members: []shard.Member{{Name: "a"}, {Name: "b", Status: shard.Status{Draining: true}}, {Name: "c", Status: shard.Status{Cut: true}}, {Name: "d"}},
			Missing: []Missing{
				{Member: shard.Member{Name: "e"}, Listed: true, Error: "refused"}, {Member: shard.Member{Name: "f"}, Error: "no answer"},
				{Member: shard.Member{Name: "g", Status: shard.Status{Draining: true}}, Listed: true, Error: "refused"}, {Member: shard.Member{Name: "d"}, Listed: true},
			},
			Differences: []terms.Difference{{Node: "b", From: "a", Parts: []string{"authorization", "upstream"}}},
		},
		Answers: []NodeState{
			{
				Node: "a", Redis: &store.State{Since: now, Error: "no answer"}, Unheard: now.Add(-time.Minute), NotReady: "no key has any state", Settings: Settings{Rejected: "line 3: bad", RejectedAt: now, Restart: []string{"listener.address"}},
				Keys: KeySums{Down: 2, DownSince: now, DownError: "refused", Stale: 1, Held: 3, Empty: 2}, LastGood: "no space left", LastGoodSince: now, Problems: []string{"x.json: bad"}, Sums: Sums{States: Count{Nacked: 1}},
			},
			{Node: "b", NotReady: "draining", Unreachable: []string{"10.0.0.2:1: refused"}, Redis: &store.State{Up: true, Error: "READONLY"}},
			{Node: "c", CutSince: now, Keys: KeySums{Down: 1}, Certificates: []BadCertificate{
				{Field: "listener", Until: time.Unix(3600, 0)}, {Field: "upstream", NotYetValid: true, From: time.Unix(7200, 0)}, {Field: "tier.peer", Expired: true, Until: now},
			}, Unreachable: []string{"10.0.0.1:1: refused"}, SeparateTypes: []string{"x.Y"}, Redis: &store.State{Up: true}},
			{Node: "h", Redis: &store.State{Error: "NOAUTH no", Problem: "Redis requires a password", Hint: "set one"}},
			{Node: "i", Frozen: FrozenBy(cache.Orders{All: &cache.Freeze{Reason: "upgrade", Since: now}, Keys: map[aggregation.Key]*cache.Freeze{"shop": {Reason: "incident", Since: now}}})},
			{Node: "j", Frozen: FrozenBy(cache.Orders{Keys: map[aggregation.Key]*cache.Freeze{"shop": {Reason: "incident", Since: now}}})},
			{Node: "k", Frozen: FrozenBy(cache.Orders{Undone: map[aggregation.Key]*cache.Undone{"shop": {Freeze: cache.Freeze{Reason: "503", Since: now}}}})},
		},
	}
	var got []string
	for _, w := range o.warnings(nil) {
		got = append(got, w.Level+" "+w.Kind+" "+w.Text+" | "+w.Detail)
	}
	want := []string{
		"error silence Node d does not answer; the states of its 9 streams are unknown | no route",
		"error node Node e of tier.nodes does not answer | refused",
		"error config Node a rejected its new configuration; the previous one stays active | line 3: bad",
		"error redis Redis is unreachable from node a; its clients are not affected | no answer",
		"error control_plane Node a has no upstream stream for 2 keys; clients keep their last configuration | refused",
		"error files Node a cannot use files of its upstream directory | x.json: bad",
		"error empty Node a has no configuration for 2 keys with clients: it has no upstream stream, and no other node has the configuration | ",
		"error last_good Node a cannot write last known good; check last_known_good.directory or tier.redis. After a restart without a control plane, the node would serve an older state | no space left",
		"error node Node a is not ready | no key has any state",
		"error redis Redis rejects operations of node b | READONLY",
		"error certificate The certificate of node c for upstream is not valid before 1970-01-01T02:00:00Z; connections that verify it fail | ",
		"error certificate The certificate of node c for tier.peer has expired; connections that verify it fail | ",
		"error control_plane Node c cannot reach the control plane and has no upstream stream for 1 key; clients keep their last configuration | 10.0.0.1:1: refused",
		"error redis Node h cannot use Redis: Redis requires a password; its clients are not affected | set one; Redis answered: NOAUTH no",
		"error clients 1 client has rejected (NACK) the newest version | ",
		"warning node Node f disappeared without draining and does not answer | no answer",
		"warning node Node g of tier.nodes has exited | refused",
		"warning node Node b is draining: it hands over its keys, sheds its clients, and exits | ",
		"warning differs Node b has a config mismatch with node a | authorization, upstream",
		"warning config Node a needs a restart for a part of its configuration | listener.address",
		"warning node Node a does not see changes of the tier; it uses its last list of nodes | ",
		"warning stale Node a serves last known good for 1 key; the control plane has not confirmed it | ",
		"warning held Node a holds back removals of 3 keys; approve them with 'xdsrelay removals approve KEY' | ",
		"warning control_plane Node b cannot reach a server of the control plane | 10.0.0.2:1: refused",
		"warning certificate The certificate of node c for listener expires at 1970-01-01T01:00:00Z and has not been renewed | ",
		"warning types Clients of node c subscribe to types that the control plane does not seem to support; it closes streams with these types | x.Y",
		"warning frozen All keys of node i are frozen: clients get only new endpoints and secrets; end that with 'xdsrelay rollout unfreeze --all' | all keys: upgrade\nshop: incident",
		"warning frozen Node j has 1 key frozen: clients get only new endpoints and secrets; end that with 'xdsrelay rollout unfreeze KEY' | shop: incident",
		"warning frozen Node k holds 1 key at an earlier revision, until the control plane sends something else for what was undone; see 'xdsrelay rollout status' | shop: 503",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := (&Observed{Members: Members{Self: "a"}}).Live(); len(all.Nodes) != 1 || len(all.Warnings) != 0 {
		t.Errorf("a node on its own: %+v", all)
	}
}
