package cache

import (
	"testing"

	"xdsrelay/relay/resource"
)

// TestArrived holds B37 for claims about names of which nothing was known: a client has what it returned
// with only where it was sent nothing else of that name since.
func TestArrived(t *testing.T) {
	claim := []resource.Held{{Name: "a", Version: res("a", "2").Version}, {Name: "b", Version: res("b", "2").Version}}
	for name, tc := range map[string]struct {
		before, since []*resource.Resource // what the table has at the client's position, and what arrives
		removed       []string             // after that
		sent          []string
		ok            bool
		rest          []string
	}{
		"nothing":          {rest: []string{"a", "b"}},
		"something else":   {since: []*resource.Resource{res("c", "1")}, rest: []string{"a", "b"}},
		"the same":         {since: []*resource.Resource{res("a", "2")}, ok: true, rest: []string{"b"}},
		"another":          {since: []*resource.Resource{res("a", "1")}, rest: []string{"b"}},
		"one of each":      {since: []*resource.Resource{res("a", "1"), res("b", "2")}, ok: true, sent: []string{"a"}},
		"the same, later":  {before: []*resource.Resource{res("a", "1")}, since: []*resource.Resource{res("a", "2")}, rest: []string{"b"}},
		"it is removed":    {since: []*resource.Resource{res("a", "1")}, removed: []string{"a"}, rest: []string{"b"}},
		"there is none":    {removed: []string{"a"}, rest: []string{"a", "b"}},
		"another at first": {before: []*resource.Resource{res("a", "1")}, rest: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, Config{})
			c := w.client(endpoints, false, "a", "b", "c")
			if len(tc.before) > 0 {
				w.apply(endpoints, tc.before...)
			}
			c.ask(t, Query{})
			if len(tc.since) > 0 {
				w.apply(endpoints, tc.since...)
			}
			if len(tc.removed) > 0 {
				w.remove(endpoints, tc.removed...)
			}
			send, gen, rest, ok := c.table.Arrived(&c.w, nil, c.at, claim)
			var left []string
			for _, h := range rest {
				left = append(left, h.Name)
			}
			equal(t, "sent", send.list(), tc.sent)
			equal(t, "left", left, tc.rest)
			equal(t, "has some of it", ok, tc.ok)
			if ok && gen != c.head().Gen {
				t.Errorf("the client counts as being at %d, expected %d", gen, c.head().Gen)
			}
		})
	}
}
