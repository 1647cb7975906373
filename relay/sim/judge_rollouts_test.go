package sim

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// TestJudgeRollouts: one client of a version may get what clients reject, another one only after it has left,
// and none gets it twice, unless the control plane sends something else.
func TestJudgeRollouts(t *testing.T) {
	reject := func(client string) record.Event {
		return record.Event{Kind: record.ClientRejected, Client: client, Key: "k", Node: "n0", Type: xdstest.ClusterType, Resources: []record.Resource{{Name: "a", Serial: 7}}}
	}
	for name, tc := range map[string]struct {
		events []record.Event
		found  []string
	}{
		"a scout":                        {[]record.Event{reject("one")}, nil},
		"two scouts":                     {[]record.Event{reject("one"), reject("two")}, []string{"Bounded"}},
		"another one, as the first left": {[]record.Event{reject("one"), {Kind: record.ClientEnd, Client: "one", Key: "k"}, reject("two")}, nil},
		"another client has left":        {[]record.Event{reject("one"), {Kind: record.ClientEnd, Client: "two", Key: "k"}, reject("two")}, []string{"Bounded"}},
		"twice":                          {[]record.Event{reject("one"), {Kind: record.Healed}, reject("one")}, []string{"Refused"}},
		"another revision":               {[]record.Event{reject("one"), {Kind: record.Healed}, {Kind: record.OriginState, Key: "k", Type: xdstest.ClusterType}, reject("one")}, nil},
		"other endpoints":                {[]record.Event{reject("one"), {Kind: record.Healed}, {Kind: record.OriginState, Key: "k", Type: xdstest.EndpointType}, reject("one")}, []string{"Refused"}},
		"a node that knows no others":    {[]record.Event{{Kind: record.Fault}, reject("one"), reject("two")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &World{plan: Plan{Setup: Setup{Rollouts: true}}, nodes: []*node{{name: "n0"}}, network: newNetwork()}
				w.judge = newJudge(w)
				var found []string
				for _, e := range tc.events {
					switch e.Kind {
					case record.Healed: // stands for some time
						time.Sleep(calm + 1) //nolint:forbidigo // virtual time
					case record.Fault: // stands for a node that has started without Redis
						w.nodes[0].relay, w.nodes[0].blind = &relay.Node{}, true
					case record.OriginState:
						w.judge.revised(&e)
					case record.ClientEnd:
						w.judge.left(&e)
					default:
						for _, c := range w.judge.rejected(&view{}, &e) {
							found = append(found, c.Guarantee)
						}
					}
				}
				if !slices.Equal(found, tc.found) {
					t.Errorf("found %q, expected %q", found, tc.found)
				}
			})
		})
	}
}
