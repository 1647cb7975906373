package robust

import (
	"encoding/json"
	"testing"

	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestExposed: of a revision that clients reject, one scout of each type may have something. Of one that
// they accept, only the canaries may.
func TestExposed(t *testing.T) {
	got := func(client, typeURL string) record.Event {
		return record.Event{Kind: record.ClientGot, Client: client, Key: "k", Type: typeURL, Resources: []record.Resource{{Name: "a", Serial: 2}}}
	}
	for name, tc := range map[string]struct {
		bad    bool
		events []record.Event
		most   int
		wrong  bool
	}{
		"a scout of both types":       {true, []record.Event{got("x", xdstest.ClusterType), got("x", xdstest.ListenerType)}, 1, false},
		"a scout of each type":        {true, []record.Event{got("x", xdstest.ClusterType), got("y", xdstest.ListenerType)}, 1, false},
		"two scouts of a type":        {true, []record.Event{got("x", xdstest.ClusterType), got("y", xdstest.ClusterType)}, 1, true},
		"one has left":                {true, []record.Event{got("x", xdstest.ClusterType), {Kind: record.ClientEnd, Client: "x", Key: "k", Own: true}, got("y", xdstest.ClusterType)}, 1, false},
		"canaries of different types": {false, []record.Event{got("x", xdstest.ClusterType), got("y", xdstest.ListenerType)}, 2, false},
		"more clients than canaries":  {false, []record.Event{got("x", xdstest.ClusterType), got("y", xdstest.ListenerType)}, 1, true},
		"endpoints are not staged":    {true, []record.Event{got("x", xdstest.ClusterType), got("y", xdstest.EndpointType)}, 1, false},
	} {
		x := newExposed("k", tc.bad, 1)
		for i := range tc.events {
			x.observe(&tc.events[i])
		}
		if wrong := x.wrong(tc.most); (len(wrong) > 0) != tc.wrong {
			t.Errorf("%s: %v", name, wrong)
		}
	}
}

// TestLostWithout: a canary counts as lost without the revision if it has got nothing of it.
func TestLostWithout(t *testing.T) {
	x := newExposed("key", false, 0)
	x.since["a"] = true
	var s rolloutStatus
	if err := json.Unmarshal([]byte(`{"state": "Stepping Bake", "canaries": 3, "lost": [{"client": "a"}, {"client": "b"}]}`), &s); err != nil {
		t.Fatal(err)
	}
	if n := s.lostWithout(x); n != 1 {
		t.Errorf("%d canaries, expected the one that has got nothing", n)
	}
}
