package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"xdsrelay/relay/aggregation"
)

// TestSeals: seals find the same changes as the configurations themselves, and reveal no value.
func TestSeals(t *testing.T) {
	salt := []byte(strings.Repeat("s", LeastSalt))
	old, next := Default(), Default()
	old.Admin.Hosts = []string{} // as good as none
	if live, restart := ChangedSeals(old, Seals(next, salt), salt); len(live)+len(restart) > 0 {
		t.Errorf("without a change: %v, %v", live, restart)
	}
	next.Aggregation.Rules = []aggregation.Rule{{Name: "a", Key: "node.id"}}
	next.Limits.MaxKeys++
	next.Listener.Address = "127.0.0.1:1"
	next.Tier.Redis.URL = "redis://:secret@localhost"
	seals := Seals(next, salt)
	live, restart := ChangedSeals(old, seals, salt)
	if wantLive, wantRestart := Changes(Default(), next); !slices.Equal(live, wantLive) || !slices.Equal(restart, wantRestart) {
		t.Errorf("got %v, %v, expected %v, %v", live, restart, wantLive, wantRestart)
	}
	if strings.Contains(fmt.Sprint(seals), "secret") {
		t.Error("the seals show a value")
	}
	if fmt.Sprint(seals) == fmt.Sprint(Seals(next, []byte(strings.Repeat("t", LeastSalt)))) {
		t.Error("the salt does not matter")
	}
	delete(seals, "limits.max_keys")
	seals["limits.newer"] = "x"
	if _, restart = ChangedSeals(old, seals, salt); !slices.Contains(restart, "limits.max_keys") || !slices.Contains(restart, "limits.newer") {
		t.Errorf("of another version: %v", restart)
	}
}
