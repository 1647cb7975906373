package resume_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
	"xdsrelay/upstream/resume"
)

var cluster = &resource.Type{URL: "type.googleapis.com/envoy.config.cluster.v3.Cluster"}

// TestClaims walks the table of Claims: each phase, the same server or another one, marked or not,
// and marks of the same server or of another one (C8).
func TestClaims(t *testing.T) {
	const asked, other = "asked:1", "other:1"
	for _, row := range []struct {
		name   string
		make   func(c *resume.Content)
		phase  resume.Phase
		marked string // the claim for a marked resource: "-" for none
		plain  string // the claim for a resource without a mark
	}{
		{"fresh", func(*resume.Content) {}, resume.Fresh, "-", "-"},
		{"fresh: no address", func(c *resume.Content) { c.Restored("") }, resume.Fresh, "-", "-"},
		{"earlier, the same", func(c *resume.Content) { c.Restored(asked) }, resume.Earlier, resume.Unknown, resume.Unknown},
		{"earlier, another", func(c *resume.Content) { c.Restored(other) }, resume.Earlier, "-", "-"},
		{"serving", func(c *resume.Content) { c.Answered(asked) }, resume.Serving, "-", "7"},
		{"serving, another", func(c *resume.Content) { c.Answered(other) }, resume.Serving, "-", "-"},
		{"serving, after its own of before", func(c *resume.Content) { c.Restored(asked); c.Answered(asked) }, resume.Serving, resume.Unknown, "7"},
		{"serving, after another", func(c *resume.Content) { c.Answered(other); c.Answered(asked) }, resume.Serving, "-", "7"},
		{"serving, after another of before", func(c *resume.Content) { c.Restored(other); c.Answered(asked) }, resume.Serving, "-", "7"},
		{"serving again, after another", func(c *resume.Content) { c.Answered(asked); c.Answered(other); c.Answered(asked) }, resume.Serving, "-", "7"},
		{"confirmed", func(c *resume.Content) { c.Confirmed(asked) }, resume.Serving, resume.Unknown, "7"},
		{"confirmed, another", func(c *resume.Content) { c.Confirmed(other) }, resume.Serving, "-", "-"},
		{"restored too late", func(c *resume.Content) { c.Answered(asked); c.Restored(other) }, resume.Serving, "-", "7"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var c resume.Content
			row.make(&c)
			if c.Phase() != row.phase {
				t.Errorf("phase %d, expected %d", c.Phase(), row.phase)
			}
			c.Mark(cluster, []string{"marked"})
			got := c.Claims(asked, cluster, map[string]string{"marked": "7", "plain": "7"})
			for name, want := range map[string]string{"marked": row.marked, "plain": row.plain} {
				claim, is := got[name]
				if !is {
					claim = "-"
				}
				if claim != want {
					t.Errorf("claim of %s: %s, expected %s", name, claim, want)
				}
			}
		})
	}
}

// TestVersions: the version of a type that SotW repeats is of the server that accepted it (C1).
func TestVersions(t *testing.T) {
	var c resume.Content
	is := func(server, want string) {
		t.Helper()
		if got := c.Version(server, cluster); got != want {
			t.Errorf("version for %s: %q, expected %q", server, got, want)
		}
	}
	is("a", "")
	c.Restored("a")
	is("a", "")
	c.Answered("a")
	c.Accepted(cluster, "1")
	is("a", "1")
	is("b", "")
	if c.Answered("a") {
		t.Error("the same server counts as another one")
	}
	is("a", "1")
	c.Answered("b")
	is("a", "")
	is("b", "")
	c.Accepted(cluster, "2")
	c.Forget()
	is("b", "")
}

// claimsModel is what TestClaimsAgainstModel compares Content with: it remembers of each resource which
// server has sent it, and whether the key was without a stream since.
type claimsModel struct {
	server  string // that has answered; "" if none has
	before  string // that the content was from before there was a server
	content map[string]claimsOrigin
}

type claimsOrigin struct {
	server string
	since  bool // since then, the server has not forgotten its versions
}

func (m *claimsModel) claims(server string) map[string]string {
	claims := make(map[string]string)
	for name, o := range m.content {
		switch {
		case m.server != "" && m.server != server, m.server == "" && m.before != server:
		case o.server == server && o.since:
			claims[name] = "v"
		case o.server == server && m.before == server:
			claims[name] = resume.Unknown
		}
	}
	return claims
}

// TestClaimsAgainstModel: servers answer in any order, and each sends and removes some names. No claim
// is made to a server about what another one has sent, and versions are only repeated to the server
// that has sent them in the same phase.
func TestClaimsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		servers := []string{"a", "b", "c"}
		names := []string{"x", "y", "z"}
		m := claimsModel{content: make(map[string]claimsOrigin)}
		var c resume.Content
		if rapid.Bool().Draw(t, "restored") {
			m.before = rapid.SampledFrom(servers).Draw(t, "of")
			for _, n := range names {
				m.content[n] = claimsOrigin{server: m.before}
			}
			c.Restored(m.before)
		}
		t.Repeat(map[string]func(*rapid.T){
			"answer": func(t *rapid.T) {
				server := rapid.SampledFrom(servers).Draw(t, "server")
				if c.Answered(server) {
					c.Unmark()
					c.Mark(cluster, slices.Collect(maps.Keys(m.content)))
				}
				if m.server != server {
					if m.server != "" {
						m.before = m.server
					}
					m.server = server
					// All that is cached counts as from the server before: this one may have
					// forgotten what it sent earlier.
					for n := range m.content {
						m.content[n] = claimsOrigin{server: m.before}
					}
				}
				name := rapid.SampledFrom(names).Draw(t, "name")
				c.Mentioned(cluster, name)
				if rapid.Bool().Draw(t, "removed") {
					delete(m.content, name)
				} else {
					m.content[name] = claimsOrigin{server, true}
				}
			},
			"sweep": func(t *rapid.T) {
				if m.server == "" {
					t.Skip("no server has answered")
				}
				for _, n := range c.TakeMarked(cluster) {
					if m.content[n].since {
						t.Fatalf("%s is swept, though %s has sent it", n, m.server)
					}
					delete(m.content, n)
				}
				for n, o := range m.content {
					if !o.since {
						t.Fatalf("%s is not swept, though %s has not mentioned it", n, m.server)
					}
				}
			},
			"": func(t *rapid.T) {
				for _, server := range servers {
					held := make(map[string]string)
					for n := range m.content {
						held[n] = "v"
					}
					got, want := c.Claims(server, cluster, held), m.claims(server)
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("claims to %s: %v, expected %v", server, got, want)
					}
				}
			},
		})
	})
}
