package xdsget

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdsclient"
)

// subscription is one type of a session. It is guarded by Session.mu.
type subscription struct {
	url      string
	asked    map[string]bool // by the user, "*" for all
	followed map[string]bool // references
	problem  string          // why the type has no stream

	responses int
	version   string              // of the last response that was accepted
	reason    string              // why the last response was rejected
	held      map[string]*entry   // by canonical name
	rejected  map[string]rejected // resources of responses that were rejected, by canonical name
	absent    map[string]string   // names without a resource, and what the server reports about them
}

// entry is a resource that was accepted.
type entry struct {
	version string
	body    []byte // not to be changed
	refs    []Ref
}

// rejected is a resource that was not accepted.
type rejected struct{ version, reason string }

// Update is what a response changed. Resources are in order of their names.
type Update struct {
	TypeURL  string
	Version  string // of the response; empty if resources were dropped without one
	Rejected string // why the response was rejected; empty if it was accepted

	Added, Changed, Removed []Item
	// Absent are names of subscriptions for which the server reported that there is no resource.
	Absent []Item
}

// Item is a resource in an [Update].
type Item struct {
	Name    string
	Version string
	Reason  string // why it is absent
}

func newSubscription(url string) *subscription {
	return &subscription{
		url: url, asked: make(map[string]bool), followed: make(map[string]bool),
		held: make(map[string]*entry), rejected: make(map[string]rejected), absent: make(map[string]string),
	}
}

func (t *subscription) ask(r Ref) { t.asked[resource.Canonical(r.Name)] = true }

// names lists the subscription, sorted.
func (t *subscription) names() []string {
	all := maps.Clone(t.asked)
	maps.Copy(all, t.followed)
	return slices.Sorted(maps.Keys(all))
}

// wants reports whether a name is in the subscription itself.
func (t *subscription) wants(name string) bool { return t.asked[name] || t.followed[name] }

// several reports whether the subscription may have any number of resources.
func (t *subscription) several() bool {
	return slices.ContainsFunc(t.names(), func(n string) bool { return Ref{t.url, n}.several() })
}

// followOnly makes names the followed ones. moved reports whether resources with references are gone.
func (t *subscription) followOnly(names map[string]bool) (c change, moved bool) {
	c.url = t.url
	follow := make(map[string]bool)
	for n := range names {
		if !t.asked[xdsclient.Wildcard] && !t.asked[n] {
			follow[n] = true
		}
	}
	for n := range follow {
		if !t.followed[n] {
			c.add = append(c.add, n)
		}
	}
	for n := range t.followed {
		if !follow[n] {
			c.drop = append(c.drop, n)
		}
	}
	t.followed = follow
	if len(c.drop) == 0 {
		return c, false
	}
	for n, e := range t.held {
		if !t.covers(n) {
			if c.gone == nil {
				c.gone = &Update{TypeURL: t.url}
			}
			c.gone.Removed = append(c.gone.Removed, Item{Name: n, Version: e.version})
			moved = moved || len(e.refs) > 0
			delete(t.held, n)
		}
	}
	if c.gone != nil {
		sortItems(c.gone.Removed)
	}
	for _, n := range c.drop {
		delete(t.absent, n)
		delete(t.rejected, n)
	}
	return c, moved
}

// covers reports whether a resource is in the subscription.
func (t *subscription) covers(name string) bool {
	return t.wants(xdsclient.Wildcard) || xdsclient.Covers(t.asked, name) || xdsclient.Covers(t.followed, name)
}

// apply notes a response. has are the names in it, with the resources that the client has after it.
// moved reports whether references may have changed.
func (t *subscription) apply(f *xdsclient.Frame, has map[string]*xdsclient.Held, st *stream) (u *Update, moved bool) {
	t.responses++
	u = &Update{TypeURL: f.TypeURL, Version: f.Version, Rejected: st.rejected}
	for _, r := range f.Resources {
		name := resource.Canonical(r.Name)
		reason := st.rejected
		if own := st.unusable[r.Name]; own != "" {
			reason = own
			if u.Rejected == "" {
				u.Rejected = r.Name + ": " + own
			}
		}
		if reason != "" {
			t.rejected[name] = rejected{r.Version, reason}
			delete(t.absent, name)
		}
	}
	if t.reason = u.Rejected; t.reason == "" {
		t.version = f.Version
	}
	if st.rejected == "" {
		moved = t.replace(f, has, st, u)
		t.reports(f, u)
	}
	for _, items := range [][]Item{u.Added, u.Changed, u.Removed, u.Absent} {
		sortItems(items)
	}
	return u, moved
}

// replace makes has the content of the names in it. In SotW responses of some types, no other names
// have any.
func (t *subscription) replace(f *xdsclient.Frame, has map[string]*xdsclient.Held, st *stream, u *Update) (moved bool) {
	refs := make(map[string][]Ref, len(st.refs))
	for name, r := range st.refs {
		refs[resource.Canonical(name)] = r
		delete(t.rejected, resource.Canonical(name))
	}
	remove := func(name string) {
		if e := t.held[name]; e != nil {
			u.Removed = append(u.Removed, Item{Name: name, Version: e.version})
			moved = moved || len(e.refs) > 0
			delete(t.held, name)
		}
	}
	if !f.Delta && xdsclient.FullState(t.url) {
		for name := range t.held {
			if has[name] == nil {
				remove(name)
			}
		}
	}
	for name, h := range has {
		e := t.held[name]
		switch {
		case h == nil:
			remove(name)
			continue
		case e == nil:
			u.Added = append(u.Added, Item{Name: name, Version: h.Version})
			e = &entry{}
			t.held[name] = e
		case !bytes.Equal(e.body, h.Body):
			u.Changed = append(u.Changed, Item{Name: name, Version: h.Version})
		default:
			e.version = h.Version
			continue
		}
		moved = moved || !slices.Equal(e.refs, refs[name])
		e.version, e.body, e.refs = h.Version, h.Body, refs[name]
		delete(t.absent, name)
	}
	return moved
}

// reports notes the names about which a response reports that there is no resource.
func (t *subscription) reports(f *xdsclient.Frame, u *Update) {
	absent := func(name, reason string) {
		name = resource.Canonical(name)
		delete(t.rejected, name)
		if t.held[name] == nil && t.wants(name) && t.absent[name] != reason {
			t.absent[name] = reason
			u.Absent = append(u.Absent, Item{Name: name, Reason: reason})
		}
	}
	for _, name := range f.Removed {
		absent(name, "does not exist")
	}
	if !f.Delta && xdsclient.FullState(t.url) && u.Rejected == "" {
		clear(t.rejected)
		for _, name := range t.names() {
			if !(Ref{t.url, name}).several() {
				absent(name, "does not exist")
			}
		}
	}
	for _, e := range f.Errors {
		detail := e.GetErrorDetail()
		absent(e.GetResourceName().GetName(), fmt.Sprintf("%s: %s", codeName(codes.Code(detail.GetCode())), detail.GetMessage()))
	}
}

// waiting lists the names that have neither arrived nor been reported on, sorted.
func (t *subscription) waiting() (names []string) {
	if t.problem != "" {
		return nil
	}
	return slices.DeleteFunc(t.names(), t.arrived)
}

// isWaiting reports whether there are such names.
func (t *subscription) isWaiting() bool {
	if t.problem != "" {
		return false
	}
	for _, names := range []map[string]bool{t.asked, t.followed} {
		for name := range names {
			if !t.arrived(name) {
				return true
			}
		}
	}
	return false
}

// arrived reports whether a name of the subscription has arrived or was reported on.
func (t *subscription) arrived(name string) bool {
	_, bad := t.rejected[name]
	switch {
	case name == xdsclient.Wildcard:
		return t.responses > 0
	case t.held[name] != nil, bad, t.absent[name] != "":
		return true
	}
	return resource.IsGlob(name) && t.hasOf(name)
}

// hasOf reports whether a resource of a glob has arrived.
func (t *subscription) hasOf(glob string) bool {
	for name := range t.held {
		if resource.GlobOf(name) == glob {
			return true
		}
	}
	for name := range t.rejected {
		if resource.GlobOf(name) == glob {
			return true
		}
	}
	return false
}
