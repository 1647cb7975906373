package ops

import (
	"strings"
	"testing"
)

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
