package cache

import (
	"maps"
	"slices"

	"xdsrelay/relay/resource"
)

// The effect of an update on the model.

func (m *model) set(name string, r *resource.Resource) {
	var keep []string
	was := m.former[name]
	if old := m.shown[name]; old != nil {
		was = slices.Concat(was, old.Aliases)
	}
	for _, a := range was {
		if m.wants[a] != nil && !slices.Contains(keep, a) && (r == nil || !slices.Contains(r.Aliases, a)) {
			keep = append(keep, a)
		}
	}
	m.former[name] = keep
	delete(m.shown, name)
	delete(m.absent, name)
	delete(m.denied, name)
	delete(m.ttl, name)
	if r == nil {
		m.absent[name] = true
	} else {
		m.shown[name] = r
	}
}

// lasts applies the TTL of a resource from the control plane; again says that it is no change.
func (m *model) lasts(said *resource.Resource, again bool) {
	delete(m.errors, said.Key)
	if _, had := m.ttl[said.Key]; said.TTL == 0 && (!had || m.ttl[said.Key] == 0) {
		return
	}
	m.ttl[said.Key] = said.TTL
	m.beats[said.Key]++
	if again {
		m.notes[said.Key] = true
	}
}

// refuse applies an error to a resource (K8).
func (m *model) refuse(stream int, a resource.About) (changes int) {
	n := resource.Canonical(a.Name)
	switch {
	case a.Code == resource.CodeNotFound:
		return m.remove(stream, n)
	case a.Code == resource.CodePermissionDenied && m.copies[stream][n].res != nil:
		changes = m.drop(stream, n)
		delete(m.absent, n)
		m.denied[n], m.deniedBy[n] = true, stream
	}
	return changes
}

// remove records that a stream's control plane has no resource of a name.
func (m *model) remove(stream int, n string) (changes int) {
	switch w := m.wants[n]; {
	case m.shown[n] != nil:
		return m.drop(stream, n)
	case m.denied[n] && m.deniedBy[n] == stream:
		m.deny(stream, n)
		return 1
	case m.denied[n]:
	case !m.wanted(stream, n):
	case m.unknown(n):
		m.deny(stream, n)
		return 1
	case resource.IsGlob(n):
		w.answered = true
	}
	return 0
}

// show is set, and returns the number of changes: a glob may become empty (G7).
func (m *model) show(name string, r *resource.Resource) int {
	was := m.shown[name] != nil
	m.set(name, r)
	if g := resource.GlobOf(name); was && m.wants[g] != nil && !m.goBy(g) {
		m.set(g, nil)
		return 2
	}
	return 1
}

// again shows an unchanged resource once more if that reverts an error (C16, D15), and returns the
// number of changes. Only the table knows which copy it is: see machine.renew.
func (m *model) again(stream int, name string) int {
	if m.errors[name] == "" {
		return 0
	}
	m.renewed = append(m.renewed, name)
	ttl, had := m.ttl[name]
	changes := m.show(name, m.shown[name])
	if had {
		m.ttl[name] = ttl
	}
	return changes
}

// other is the copy of name of another stream.
func (m *model) other(stream int, name string) modelCopy {
	for i := range m.legs {
		if c := m.copies[i][name]; i != stream && c.res != nil {
			return c
		}
	}
	return modelCopy{}
}

// put stores the content of a stream, and returns the number of changes.
func (m *model) put(stream int, r *resource.Resource) int {
	delete(m.guarded[stream], r.Key)
	mine, was := modelCopy{r, r.Version}, m.member(r.Key)
	old, shown, other := m.copies[stream][r.Key], m.shown[r.Key], m.other(stream, r.Key).res
	switch {
	case old.res != nil && old.res.SameContent(r): // D15
		m.copies[stream][r.Key] = modelCopy{old.res, r.Version}
		changes := m.again(stream, r.Key)
		m.lasts(r, changes == 0)
		return changes
	case shown != nil && shown.SameContent(r):
		mine.res = shown
	case other != nil && other.SameContent(r):
		mine.res = other
	}
	if shown != nil && !shown.SameContent(r) {
		delete(m.refused, r.Key)
	}
	m.copies[stream][r.Key] = mine
	m.met[r.Key] = m.met[r.Key] || m.member(r.Key)
	if mine.res != shown {
		changes := m.show(r.Key, mine.res)
		m.lasts(r, false)
		return changes
	}
	if was != m.member(r.Key) {
		return 1
	}
	return 0
}

// guard decides which removals of u are held back (K16). live is how many resources the stream had
// before.
func (m *model) guard(stream int, u Update, live int) {
	if m.percent == 0 || !u.Full && len(u.Removed) == 0 {
		return
	}
	gone := make(map[string]bool)
	for n, c := range m.copies[stream] {
		removed := slices.Contains(resource.CanonicalNames(u.Removed), n)
		said := slices.Contains(u.Keep, n) || slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return r.Key == n }) ||
			slices.ContainsFunc(u.Errors, func(a resource.About) bool { return resource.Canonical(a.Name) == n })
		gone[n] = c.res != nil && (removed || u.Full && !said)
	}
	maps.DeleteFunc(gone, func(_ string, out bool) bool { return !out })
	removed := maps.Clone(gone)
	if !u.Full {
		maps.Copy(removed, m.guarded[stream])
	}
	switch {
	case len(gone) > 0 && (100*len(removed) > m.percent*live || len(removed) == len(m.copies[stream])):
		if u.Full {
			clear(m.guarded[stream])
		}
		maps.Copy(m.guarded[stream], gone)
	case u.Full:
		clear(m.guarded[stream])
	}
}

// release applies the removals that were held back.
func (m *model) release() {
	for stream, names := range m.guarded {
		if len(names) > 0 {
			m.versions[stream] = ""
		}
		for n := range maps.Clone(names) {
			m.drop(stream, n)
		}
	}
}

// drop removes a stream's copy, and returns the number of changes.
func (m *model) drop(stream int, name string) int {
	if m.copies[stream][name].res == nil {
		return 0
	}
	was := m.member(name)
	delete(m.copies[stream], name)
	delete(m.guarded[stream], name)
	if rest := m.other(stream, name).res; rest != m.shown[name] {
		return m.show(name, rest)
	}
	if was != m.member(name) {
		return 1
	}
	return 0
}

// deny records that the control plane of a stream has no such name.
func (m *model) deny(stream int, name string) {
	m.set(name, nil)
	m.met[name] = m.met[name] || m.route(everything) == stream
}

// apply returns the number of changes of u.
func (m *model) apply(stream int, u Update) (changes int) {
	before, exact := m.holds(stream), u.Full && len(u.Keep) == 0
	m.notes, m.said, m.renewed = make(map[string]bool), make(map[string]bool), nil
	m.differs[stream] = m.differs[stream] || u.Differences
	m.heard[stream] = m.heard[stream] || u.Source != ""
	live := len(m.copies[stream])
	for _, r := range u.Resources {
		switch {
		case !m.covered(stream, r.Key, r.Aliases) || !m.sameOrigin(m.route(r.Key), stream): // C10, G3
			exact = false
			if u.Differences && !m.covered(stream, r.Key, r.Aliases) {
				m.requested[stream].ghosts[r.Key] = true
			}
		case r.DoNotCache: // K17
			exact = false
			switch {
			case m.copies[stream][r.Key].res != nil:
				changes += m.drop(stream, r.Key)
			case m.shown[r.Key] != nil || m.denied[r.Key]:
				continue
			default:
				m.set(r.Key, nil)
				changes++
			}
			if m.shown[r.Key] == nil {
				delete(m.absent, r.Key)
				m.denied[r.Key], m.deniedBy[r.Key] = true, stream
			}
		case r.Heartbeat(): // F6
			if c := m.copies[stream][r.Key]; c.res != nil && (r.Version == "" || r.Version == c.version) {
				changes += m.again(stream, r.Key)
				m.lasts(r, true)
				delete(m.guarded[stream], r.Key)
			}
		case r.Body != nil || len(r.Aliases) > 0:
			changes += m.put(stream, r)
		case m.shown[r.Key] != nil: // C11
			changes += m.drop(stream, r.Key)
		case !m.absent[r.Key]:
			m.deny(stream, r.Key)
			changes++
		}
	}
	m.guard(stream, u, live)
	for _, n := range resource.CanonicalNames(u.Removed) {
		if !m.guarded[stream][n] {
			changes += m.remove(stream, n)
		}
	}
	for _, a := range u.Errors {
		changes += m.refuse(stream, a)
		exact = exact && m.copies[stream][resource.Canonical(a.Name)].res == nil
	}
	if u.Full {
		missing := maps.Clone(m.denied)
		maps.DeleteFunc(missing, func(n string, _ bool) bool { return m.deniedBy[n] != stream })
		for n := range m.copies[stream] {
			missing[n] = true
		}
		for _, a := range u.Errors {
			delete(missing, resource.Canonical(a.Name))
		}
		for n := range missing {
			if m.guarded[stream][n] {
				continue
			}
			said := slices.ContainsFunc(u.Resources, func(r *resource.Resource) bool { return r.Key == n })
			if !said && !slices.Contains(u.Keep, n) && m.denied[n] {
				m.deny(stream, n)
				changes++
			} else if !said && !slices.Contains(u.Keep, n) {
				changes += m.drop(stream, n)
			}
		}
	}
	for _, a := range u.Errors {
		n := resource.Canonical(a.Name)
		if m.covered(stream, n, nil) && m.errors[n] != string(a.Raw) {
			m.errors[n], m.inSet[n], m.said[n], m.refused[n] = string(a.Raw), m.goBy(n), true, true
		}
	}
	if m.holds(stream) != before { // D7
		if !exact || u.Version == m.versions[stream] || len(m.guarded[stream]) > 0 {
			m.versions[stream] = ""
		} else {
			m.versions[stream] = u.Version
		}
	}
	if u.Kind == Answer {
		for n, w := range m.wants {
			w.answered = w.answered || w.asked && m.route(n) == stream
		}
		if m.wild != nil && m.route(everything) == stream {
			m.wild.answered = m.wild.answered || m.wild.asked
		}
	}
	return changes
}
