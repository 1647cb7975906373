package ops

import (
	"slices"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollouts"
)

// TestMergeActive: of each key the node counts that decides, and others only if a node does not answer. What
// an operator should look at is first, and the newest budget counts.
func TestMergeActive(t *testing.T) {
	key := func(name, role, state string) RolloutKey {
		return RolloutKey{Key: name, State: "staged", Rollout: &RolloutProgress{Key: name, Role: role, State: state}}
	}
	frozen := RolloutKey{Key: "frozen", State: "frozen", Freeze: &cache.Freeze{Reason: "test"}}
	a := Rollout{Keys: []RolloutKey{key("done", "deciding", rollouts.StateIdle), frozen, key("held", "following", "following"), key("lost", "following", "following")}, Idle: 2, Budget: &RolloutBudget{Used: 1, Written: 3}}
	b := Rollout{Keys: []RolloutKey{key("held", "deciding", rollouts.StateHeld), key("moves", "deciding", "Stepping Bake")}, Idle: 1, Budget: &RolloutBudget{Used: 2, Written: 4}}
	for _, test := range []struct {
		silent []Silent
		want   []string
	}{
		{nil, []string{"held", "moves", "frozen", "done"}},
		{[]Silent{{Node: "c"}}, []string{"held", "lost", "moves", "frozen", "done"}},
	} {
		is := MergeActive("a", []Rollout{a, b}, test.silent)
		var got []string
		for _, k := range is.Keys {
			got = append(got, k.Key)
		}
		if !slices.Equal(got, test.want) || is.Idle != 3 || is.Budget.Used != 2 || is.Keys[0].Rollout.State != rollouts.StateHeld {
			t.Errorf("%d nodes are silent: %v, %+v", len(test.silent), got, is)
		}
	}
	for range mostActive {
		a.Keys = append(a.Keys, key("k"+string(rune('0'+len(a.Keys))), "deciding", "Stepping Bake"))
	}
	if is := MergeActive("a", []Rollout{a, b}, nil); len(is.Keys) != mostActive || is.Omitted != 4 {
		t.Errorf("%d keys, and %d are left out", len(is.Keys), is.Omitted)
	}
}

// TestMergeObserved: of the nodes that observe a key, the one counts that would have refused its revision; one
// that decides counts before all. What is only observed is never the most urgent.
func TestMergeObserved(t *testing.T) {
	key := func(role, mode, state string) Rollout {
		return Rollout{Keys: []RolloutKey{{Key: "shop", Rollout: &RolloutProgress{Role: role, Mode: mode, State: state}}}}
	}
	moves, held, decides := key("observing", "observe", "Stepping Bake"), key("observing", "observe", rollouts.StateHeld), key("deciding", "automatic", rollouts.StateIdle)
	for _, test := range []struct {
		all  []Rollout
		want string
	}{
		{[]Rollout{moves, held}, "observe Held"}, {[]Rollout{held, moves}, "observe Held"},
		{[]Rollout{held, decides}, "automatic Idle"}, {[]Rollout{decides, held}, "automatic Idle"},
	} {
		is := MergeActive("a", test.all, nil)
		if r := is.Keys[0].Rollout; len(is.Keys) != 1 || r.Mode+" "+r.State != test.want || is.Keys[0].urgency() == 0 {
			t.Errorf("got %+v, expected %q", is.Keys, test.want)
		}
	}
}

// TestIsActive: a key is described while something happens to it, and for an hour after its rollout has ended.
func TestIsActive(t *testing.T) {
	now := time.Now()
	past := func(ago time.Duration) []RolloutDecision { return []RolloutDecision{{At: now.Add(-ago)}} }
	for name, test := range map[string]struct {
		key  RolloutKey
		want bool
	}{
		"idle":          {RolloutKey{Rollout: &RolloutProgress{Role: "deciding", State: "Idle"}}, false},
		"ended":         {RolloutKey{Rollout: &RolloutProgress{Role: "deciding", State: "Idle", History: past(time.Minute)}}, true},
		"ended long":    {RolloutKey{Rollout: &RolloutProgress{Role: "deciding", State: "Idle", History: past(2 * time.Hour)}}, false},
		"held":          {RolloutKey{Rollout: &RolloutProgress{Role: "deciding", State: "Held", History: past(2 * time.Hour)}}, true},
		"frozen":        {RolloutKey{Freeze: &cache.Freeze{}, Rollout: &RolloutProgress{Role: "deciding", State: "Idle Braked"}}, true},
		"follows":       {RolloutKey{Rollout: &RolloutProgress{Role: "following", State: "following"}}, false},
		"shows clients": {RolloutKey{Rollout: &RolloutProgress{Role: "following", State: "following", Revision: "r-1"}}, true},
	} {
		if got := test.key.isActive(now); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
