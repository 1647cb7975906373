package cache

import (
	"testing"
	"time"
)

// Each scope says the same of what it contains as its quiet counterpart, which omits notes.
func TestScope(t *testing.T) {
	for s := range Scope(len(scopeNames)) {
		quiet := s.Quiet()
		if quiet.isWhole() != s.isWhole() || quiet.IsOnDemand() != s.IsOnDemand() || (quiet == NotesOnly) != (s == NotesOnly) {
			t.Errorf("%s becomes %s", s, quiet)
		}
		if quiet.isQuiet() == (s == NotesOnly) || quiet.Quiet() != quiet {
			t.Errorf("%s: %s omits notes %t", s, quiet, quiet.isQuiet())
		}
	}
}

// Queries that may have different answers have different keys. The limit is no part of the key.
func TestQueryKey(t *testing.T) {
	names := NewNames([]string{"a"})
	different := []Query{
		{}, {Since: Position{Gen: 1}}, {Since: Position{Removed: 1}}, {Since: Position{Noted: 1}}, {Basis: Spared}, {Basis: RejectedSince},
		{Force: names}, {Refresh: names}, {Except: names}, {Keep: names}, {Force: NewNames([]string{"b"})},
		{KeepRemoved: true}, {OmitAssumed: true}, {Reader: TTLClient}, {Reader: OtherNode}, {At: time.Unix(1, 0)}, {View: &View{id: 1}},
	}
	for s := range Scope(len(scopeNames)) {
		if s != News {
			different = append(different, Query{Scope: s})
		}
	}
	for i := range different {
		for j := range different {
			if same := different[i].Key() == different[j].Key(); same != (i == j) {
				t.Errorf("%+v and %+v: the same key %t", different[i], different[j], same)
			}
		}
	}
	if a, b := (Query{Force: names}), (Query{Force: NewNames([]string{"a"}), Limit: 5}); a.Key() != b.Key() {
		t.Error("equal queries have different keys")
	}
}
