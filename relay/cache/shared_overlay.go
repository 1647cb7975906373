package cache

import (
	"fmt"
	"maps"
	"slices"

	"xdsrelay/relay/resource"
)

// The owner of a key cuts overlays. The other nodes of a tier get them in a form of their own, and make
// candidates of them for their clients: their tables have the stable content of the owner.

// SharedView is what an overlay replaces of a type, for another node.
type SharedView struct {
	TypeURL string `json:"type_url"`
	// Replaced is an encoded DeltaDiscoveryResponse with the resources of the overlay, and Absent are the
	// canonical names of those that it removes.
	Replaced []byte   `json:"replaced,omitempty"`
	Absent   []string `json:"absent,omitempty"`
	// Members are the canonical names that belong to the wildcard set.
	Members []string `json:"members,omitempty"`
	Origin  Stamp    `json:"origin"`
}

// Share returns the overlay for another node, by type in the order E1.
func (o *Overlay) Share() (all []SharedView) {
	views := o.views()
	for _, t := range o.Tables() {
		one := SharedView{TypeURL: t.Type.URL, Origin: views[t].origin}
		m := resource.Message{Type: t.Type}
		for _, name := range slices.Sorted(maps.Keys(views[t].replace)) {
			r := views[t].replace[name]
			if r.Member {
				one.Members = append(one.Members, name)
			}
			if r.Resource == nil {
				one.Absent = append(one.Absent, name)
			} else {
				m.Resources = append(m.Resources, r.Resource)
			}
		}
		if m.Resources != nil {
			one.Replaced = resource.AppendDelta(nil, &m)
		}
		all = append(all, one)
	}
	return all
}

// Received is an overlay from the owner of the key.
type Received struct {
	group *Group
	views map[string]overlayView // by type URL
}

// Receive decodes what [Overlay.Share] has returned on another node.
func (g *Group) Receive(shared []SharedView) (*Received, error) {
	r := &Received{g, make(map[string]overlayView, len(shared))}
	for _, one := range shared {
		v := overlayView{replace: make(map[string]Replacement), origin: one.Origin}
		for _, name := range one.Absent {
			v.replace[name] = Replacement{}
		}
		if len(one.Replaced) > 0 {
			rsp, err := resource.DecodePeer(one.Replaced)
			if err == nil && len(rsp.Invalid) > 0 {
				err = rsp.Invalid[0].Err
			}
			if err != nil {
				return nil, fmt.Errorf("cache: an overlay of another node: %w", err)
			}
			for _, res := range rsp.Resources {
				v.replace[res.Key] = Replacement{Resource: res, Member: slices.Contains(one.Members, res.Key)}
			}
		}
		r.views[one.TypeURL] = v
	}
	return r, nil
}

// Candidate returns the overlay as what canaries of this node are shown.
func (r *Received) Candidate(revision string) *Candidate {
	views := make(map[*Table]*View)
	for url, one := range r.views {
		if table := r.group.lookup(resource.TypeOf(url)); table != nil {
			if v := table.NewView(one.replace, one.origin); v != nil {
				views[table] = v
			}
		}
	}
	return NewCandidate(revision, views)
}

// IsPromoted reports whether clients of this node see the content of the overlay by now, of all that they
// ask for.
func (r *Received) IsPromoted() bool {
	for url, one := range r.views {
		if table := r.group.lookup(resource.TypeOf(url)); table != nil && !table.shows(one.replace) {
			return false
		}
	}
	return true
}

// shows reports whether clients see some resources by their canonical names, as far as any asks for them.
func (t *Table) shows(replace map[string]Replacement) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for name, r := range replace {
		e := t.core.store.Get(name)
		switch {
		case e == nil || e.Res == nil:
			if r.Resource != nil && e != nil {
				return false
			}
		case r.Resource == nil || !e.Res.SameContent(r.Resource):
			return false
		}
	}
	return true
}

// Follows is called before the content of a stream of the key comes from another node instead of a control
// plane: nothing of the stream is pending then, since that node decides what clients see.
func (f *Feed) Follows() {
	changed := false
	for _, t := range f.group.Tables() {
		t.mu.Lock()
		changed = t.core.forgetPending(f.stream) || changed
		t.mu.Unlock()
	}
	if changed {
		f.group.pendingChanged()
	}
}

// forgetPending forgets what is pending of a stream. It reports whether anything was.
func (t *core) forgetPending(by int) bool {
	stream := &t.streams[by]
	g := stream.gate
	if g == nil || g.Len() == 0 {
		return false
	}
	for name := range g.All() {
		g.End(name)
	}
	g.sent = stream.versions
	return true
}
