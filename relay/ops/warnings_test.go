package ops

import (
	"strings"
	"testing"
	"time"

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
			Differences: []terms.Difference{{Node: "b", From: "a", Parts: []string{"authorize", "origin"}}},
		},
		Answers: []NodeState{
			{
				Node: "a", Redis: &store.State{Since: now, Error: "no answer"}, Unheard: now.Add(-time.Minute), NotReady: "no key has any state", Settings: Settings{Refused: "line 3: bad", RefusedAt: now, Restart: []string{"listen.address"}},
				Keys: KeySums{Down: 2, DownSince: now, DownError: "refused", Stale: 1, Held: 3, Empty: 2}, LastGood: "no space left", LastGoodSince: now, Problems: []string{"x.json: bad"}, Sums: Sums{States: Count{Nacked: 1}},
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
		"warning held Node a holds back removals of 3 keys; 'xdsrelay removals approve KEY' does them | ",
		"warning origin Node b cannot reach a server of the control plane | 10.0.0.2:1: refused",
		"warning certificate The certificate of node c for listen ends at 1970-01-01T01:00:00Z, and has not been renewed | ",
		"warning types Clients of node c ask for types that the control plane seems not to know; it ends the streams on which it is asked for them | x.Y",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("warnings:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if all := (&Observed{Members: Members{Self: "a"}}).Live(); len(all.Nodes) != 1 || len(all.Warnings) != 0 {
		t.Errorf("a node on its own: %+v", all)
	}
}
