package fanout

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
)

// TestStatusOfACanary: K20: the status of a canary is about what the candidate has, and names its part in the
// rollout. That of other clients is about the tables.
func TestStatusOfACanary(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", []string{"c"}, cluster("a", 2), cluster("d", 1)))
		f := r.canary.Recv(t)
		has := func(id string, state State, want ...proto.Message) {
			t.Helper()
			for _, c := range r.srv.Clients() {
				if c.ID() != id {
					continue
				}
				var got []string
				for s := range c.Resources {
					if got = append(got, s.Name); s.State != state && s.Name != "b" {
						t.Errorf("%s of %s is %s, expected %s", s.Name, id, s.State, state)
					}
				}
				var names []string
				for _, one := range resources(t, want...) {
					names = append(names, one.Name)
					c.Find(func(*cache.Table) []string { return []string{one.Name} }, func(found *FoundResource) bool {
						if !found.Resource.SameContent(one) {
							t.Errorf("%s has another %s", id, one.Name)
						}
						return true
					})
				}
				if !slices.Equal(got, names) {
					t.Errorf("%s has %q, expected %q", id, got, names)
				}
				if is := c.Rollout(); (is != nil) != (id == "canary") || is != nil && *is != (ClientRollout{"r1", "canary"}) {
					t.Errorf("%s has the part %+v in the rollout", id, is)
				}
			}
		}
		has("canary", Stale, cluster("a", 2), cluster("b", 1), cluster("d", 1))
		r.canary.Ack(f)
		r.settledAll(cds, Synced)
		has("canary", Synced, cluster("a", 2), cluster("b", 1), cluster("d", 1))
		has("test-client", Synced, cluster("a", 1), cluster("b", 1), cluster("c", 1))
		r.srv.Hide(r.group, false)
		if is := r.srv.Clients()[0].Rollout(); is != nil {
			t.Errorf("%+v", is)
		}
	})
}
