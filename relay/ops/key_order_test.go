package ops

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestKeyStates: a key has each state that one of its nodes has, and the worst one places it.
func TestKeyStates(t *testing.T) {
	keys := map[string]Key{
		"ok":                                     {Nodes: []NodeKey{{State: "owner", Connected: true, Clients: 5, States: Count{Synced: 5}}}},
		"nacked stale":                           {Nodes: []NodeKey{{State: "owner", Connected: true, Clients: 1, States: Count{Stale: 1}}, {State: "follower", Connected: true, States: Count{Nacked: 1}}}},
		"disconnected fallback unconfirmed held": {Nodes: []NodeKey{{State: "fallback", Error: "refused", Stale: true, HeldRemovals: 2}}},
		"idle":                                   {Nodes: []NodeKey{{State: "idle"}}},
	}
	for want, k := range keys {
		var got []string
		for _, s := range k.states() {
			got = append(got, string(s))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, expected %s", got, want)
		}
	}
	var all Keys
	for name, k := range keys {
		k.Key = name
		all.Keys = append(all.Keys, k)
	}
	for text, want := range map[string]string{
		"sort=state":          "nacked stale,disconnected fallback unconfirmed held,idle,ok",
		"sort=clients":        "ok,nacked stale,disconnected fallback unconfirmed held,idle",
		"state=held,idle":     "disconnected fallback unconfirmed held,idle",
		"owner=none":          "",
		"state=ok&sort=size":  "ok",
		"sort=updates&page=x": "page: expected next of the previous page",
		"sort=x":              `sort: got "x", expected key, state, clients, size or updates`,
		"state=x":             `state: got "x", expected nacked, disconnected, fallback, unconfirmed, held, stale, idle or ok, separated by commas`,
	} {
		v, _ := url.ParseQuery(text)
		q, err := ParseKeyQuery(v)
		got := []string{}
		if err == nil {
			for _, k := range q.sorted(all).Keys {
				got = append(got, k.Key)
			}
		} else {
			got = append(got, err.Error())
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: got %q, expected %s", text, got, want)
		}
	}
	// Pages have all keys once.
	var seen []string
	q := KeyQuery{Sort: KeysByState, Limit: 1}
	for range len(all.Keys) {
		page := q.sorted(all)
		seen = append(seen, page.Keys[0].Key)
		if page.Next == "" {
			break
		}
		v := q.Values()
		v.Set("sort", "state")
		v.Set("page", page.Next)
		v.Set("limit", "1")
		var err error
		if q, err = ParseKeyQuery(v); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != len(keys) || seen[3] != "ok" {
		t.Errorf("pages have %q", seen)
	}
}

// TestManyReasons: what clients make up as reasons is bounded.
func TestManyReasons(t *testing.T) {
	var all Rejections
	for i := range 3 * mostReasonCounts {
		one := &Reason{URL: "u", Message: "m", Clients: 1, Since: time.Now(), Keys: []ReasonCount{{strings.Repeat("k", i+1), 1}}}
		for range mostReasonResources {
			one.Resources = append(one.Resources, ReasonResource{Name: strings.Repeat("r", len(one.Resources)+i), Key: "k"})
		}
		all.add(one)
	}
	r := firstReasons(all.Reasons)[0]
	if r.Clients != 3*mostReasonCounts || len(r.Keys) != mostReasonCounts || r.OmittedKeys == 0 || len(r.Resources) != mostReasonResources {
		t.Errorf("%d clients, %d keys and %d more, %d resources", r.Clients, len(r.Keys), r.OmittedKeys, len(r.Resources))
	}
}
