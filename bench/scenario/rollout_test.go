package scenario

import (
	"testing"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet"
)

// TestExplains holds which NACKs explain themselves.
func TestExplains(t *testing.T) {
	name := content.Name(content.ClusterURL, 0, 0)
	for message, want := range map[string]bool{
		name + ": " + fleet.RejectionText + "; 1 of 3 canaries rejected it": true,
		name + ": another reason": false,
		fleet.RejectionText:       false,
		"":                        false,
	} {
		if got := explains(message, fleet.Reject); got != want {
			t.Errorf("%q explains a rejection: %t, expected %t", message, got, want)
		}
	}
	if !explains(name+": 2 canaries were lost", fleet.Leave) {
		t.Error("the message of a client that was lost is not enough")
	}
}

// TestNamed holds that a group is all of its scenarios, and that other names are those of one.
func TestNamed(t *testing.T) {
	group, err := Named("rollout")
	if err != nil || len(group) != len(rollouts()) {
		t.Errorf("%d scenarios (%v), expected %d", len(group), err, len(rollouts()))
	}
	if one, err := Named("keys"); err != nil || len(one) != 1 || one[0].Name != "keys" {
		t.Errorf("%+v, %v", one, err)
	}
	if _, err := Named("nothing"); err == nil {
		t.Error("an unknown group is known")
	}
}
