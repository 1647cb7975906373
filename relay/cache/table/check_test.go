package table

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

// TestCheckFindsDamage: the check reports a broken store.
func TestCheckFindsDamage(t *testing.T) {
	for want, damage := range map[string]func(*Store){
		"resources and":            func(s *Store) { s.live++ },
		"digest does not fit":      func(s *Store) { s.digest[0]++ },
		"members are not":          func(s *Store) { s.members++ },
		"leg 0 holds":              func(s *Store) { s.sums[0].Digest[0]++ },
		"bytes":                    func(s *Store) { s.bytes++ },
		"changed at generation 99": func(s *Store) { s.entries["a"].Gen = 99 },
		"out of place": func(s *Store) {
			s.changes.Newest().Gen = 0
			s.entries["a"].Gen = 0
			s.changes.Oldest().Gen = 1
		},
		"for some clients later": func(s *Store) { s.entries["a"].Wild = 99 },
		"alias":                  func(s *Store) { clear(s.aliases) },
		"list of tombstones":     func(s *Store) { s.tombstones.Oldest().Res = s.entries["a"].Res },
		"list of changes holds":  func(s *Store) { s.changes.Newest().changes.Older = nil },
		"list of heartbeats":     func(s *Store) { s.heartbeats.Newest().TTLState.Noted = 99 },
		"expires at":             func(s *Store) { s.entries["a"].TTLState.at = -1 },
		"lives end":              func(s *Store) { s.deadlines = append(s.deadlines, s.deadlines[0]) },
		"must not be kept":       func(s *Store) { s.SetUncacheable("x", []string{"x"}) },
		"is not in the glob":     func(s *Store) { clear(s.globs) },
		"but counts 2 and 7":     func(s *Store) { s.globs[glob].live = 7 },
		"has structure":          func(s *Store) { s.entries["a"].with().urn = &structure{} },
		"empty and not wanted":   func(s *Store) { s.AddGlob("xdstp://a/t/b/*") },
	} {
		t.Run(want, func(t *testing.T) {
			s := New(clusters, 1, func(string) bool { return false })
			put(&s, 0, resource.New(resource.Resource{Name: "a", Version: "1", Aliases: []string{"alias"}, TTL: time.Minute}))
			put(&s, 0, resource.New(resource.Resource{Name: member, Version: "1"}))
			put(&s, 0, resource.New(resource.Resource{Name: strings.Replace(member, "/one", "/two", 1), Version: "1"}))
			put(&s, 0, resource.New(resource.Resource{Name: "z", Version: "1"}))
			drop(&s, 0, "z")
			if wrong := s.Check(); len(wrong) > 0 {
				t.Fatal(wrong)
			}
			damage(&s)
			if wrong := s.Check(); !strings.Contains(strings.Join(wrong, "\n"), want) {
				t.Fatalf("%q does not say %q", wrong, want)
			}
		})
	}
}
