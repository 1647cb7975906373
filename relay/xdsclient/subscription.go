package xdsclient

import (
	"fmt"
	"maps"
	"slices"

	"xdsrelay/relay/resource"
)

// typeState is a client's side of one type. It is guarded by Client.mu.
type typeState struct {
	typeURL string

	// The subscription, whatever stream the client is on.
	wild  bool
	names map[string]bool

	// The content. Held covers accepted resources that it still wants.
	held     map[string]Held
	accepted string // version of the last response accepted

	// The stream's own.
	opened   bool   // a request of the type was sent
	explicit bool   // one of them had names: the legacy wildcard is over (B20)
	nonce    string // of the last response answered
	pending  bool   // a response is being answered
	frames   int    // responses received
	blind    int    // SotW requests sent before the first response
	overdue  int    // see Config.Overdue
	// left are the names that were dropped since the last answer (SotW). The server may not know.
	left map[string]bool
	// dropped has, for names no longer wanted, how many responses had arrived when they were dropped:
	// one that was then on its way may still hold them.
	dropped map[string]int
}

func newTypeState(typeURL string) *typeState {
	t := &typeState{typeURL: typeURL, names: make(map[string]bool), held: make(map[string]Held)}
	t.newStream()
	return t
}

// newStream forgets what belonged to the last stream.
func (t *typeState) newStream() {
	t.opened, t.explicit, t.nonce, t.pending, t.frames, t.blind = false, false, "", false, 0, 0
	t.dropped, t.left = make(map[string]int), make(map[string]bool)
}

// subChange is a change of subscription in the words of the delta protocol.
type subChange struct{ subscribe, unsubscribe []string }

func (d subChange) empty() bool { return len(d.subscribe)+len(d.unsubscribe) == 0 }

func (t *typeState) add(names []string) (d subChange) {
	if len(names) == 0 {
		names = []string{Wildcard}
	}
	for _, n := range names {
		n = resource.Canonical(n)
		switch {
		case n == Wildcard && !t.wild:
			t.wild = true
		case n != Wildcard && !t.names[n]:
			t.names[n] = true
		default:
			continue
		}
		delete(t.dropped, n)
		d.subscribe = append(d.subscribe, n)
	}
	return d
}

func (t *typeState) again(names []string) (d subChange) {
	for _, n := range names {
		if n = resource.Canonical(n); n == Wildcard && t.wild || t.names[n] {
			d.subscribe = append(d.subscribe, n)
		}
	}
	return d
}

func (t *typeState) drop(names []string) (d subChange) {
	if len(names) == 0 {
		names = t.wanted()
	}
	for _, n := range names {
		n = resource.Canonical(n)
		switch {
		case n == Wildcard && t.wild:
			t.wild = false
			t.accepted = "" // it stands for all that is thrown away here (B39)
		case n != Wildcard && t.names[n]:
			delete(t.names, n)
		default:
			continue
		}
		t.dropped[n], t.left[n] = t.frames, true
		d.unsubscribe = append(d.unsubscribe, n)
	}
	maps.DeleteFunc(t.held, func(n string, _ Held) bool { return !t.wants(n) })
	return d
}

func (t *typeState) wants(name string) bool {
	return t.wild || Covers(t.names, resource.Canonical(name))
}

func (t *typeState) wantsAnything() bool { return t.wild || len(t.names) > 0 }

// wanted lists the subscription, "*" first.
func (t *typeState) wanted() []string {
	names := slices.Sorted(maps.Keys(t.names))
	if t.wild {
		names = append([]string{Wildcard}, names...)
	}
	return names
}

// sure lists the subscription without names that were dropped and are wanted again before the server
// can be known to have received that: it would take them for held (B8, C9).
func (t *typeState) sure() []string {
	return slices.DeleteFunc(t.wanted(), func(n string) bool {
		_, held := t.held[n]
		return !held && (t.left[n] || t.left[Wildcard])
	})
}

// tolerates reports whether a name may come: because it is wanted, or because
// the response may have left the server before the server knew that it is not.
// A server has one unanswered response per type (B9), and may have answered each request that quoted no
// nonce (B10), and sent more to a client that does not answer (B12).
func (t *typeState) tolerates(name string) bool {
	if t.wants(name) {
		return true
	}
	for _, n := range []string{resource.Canonical(name), Wildcard, resource.GlobOf(resource.Canonical(name))} {
		if at, ok := t.dropped[n]; ok && t.frames <= at+max(1, t.blind)+t.overdue {
			return true
		}
	}
	return false
}

// check lists what is wrong with a frame of this type; it was counted already.
func (t *typeState) check(f *Frame) (wrong []string) {
	seen := make(map[string]bool)
	twice := func(name string) {
		name = resource.Canonical(name)
		if seen[name] {
			wrong = append(wrong, fmt.Sprintf("B29: %q twice in %s", name, f))
		}
		seen[name] = true
	}
	live := t.wantsAnything()
	for _, r := range f.Resources {
		twice(r.Name)
		live = live || t.tolerates(r.Name)
		if !t.tolerates(r.Name) && !slices.ContainsFunc(r.Aliases, t.tolerates) {
			wrong = append(wrong, fmt.Sprintf("B31: %q, which was not asked for, in %s", r.Name, f))
		}
		if r.Body == nil && r.TTL == 0 && len(r.Aliases) == 0 {
			wrong = append(wrong, fmt.Sprintf("B34: %q without a body in %s", r.Name, f))
		}
		if r.Body != nil && r.Body.GetTypeUrl() != f.TypeURL {
			wrong = append(wrong, fmt.Sprintf("B30: %q is a %s in %s", r.Name, r.Body.GetTypeUrl(), f))
		}
	}
	for _, n := range f.Removed {
		// Naming a resource that the client never had is harmless, so only
		// repetition counts.
		twice(n)
		live = live || t.tolerates(n)
	}
	for n := range t.dropped {
		live = live || t.tolerates(n)
	}
	if !live {
		wrong = append(wrong, fmt.Sprintf("B4: nothing of the type is subscribed to: %s", f))
	}
	return wrong
}

// apply takes a frame in, except for the resources that the client cannot use:
// of those it keeps what it has. A frame that holds any was not accepted.
func (t *typeState) apply(f *Frame, unusable map[string]bool) {
	if len(unusable) == 0 {
		t.accepted = f.Version
	}
	if !f.Delta && FullState(t.typeURL) {
		had := t.held
		t.held = make(map[string]Held, len(f.Resources))
		for _, r := range f.Resources {
			if r.Body == nil || unusable[r.Name] { // a heartbeat confirms what is held
				if h, ok := had[resource.Canonical(r.Name)]; ok {
					t.held[resource.Canonical(r.Name)] = h
				}
			}
		}
	}
	for _, r := range f.Resources {
		if r.Body != nil && t.wants(r.Name) && !unusable[r.Name] {
			t.held[resource.Canonical(r.Name)] = Held{Version: r.Version, Body: r.Body.GetValue()}
		}
	}
	for _, n := range f.Removed {
		delete(t.held, resource.Canonical(n))
	}
}

// versions is what a delta client states on a new stream: the versions of what it holds (B37).
func (t *typeState) versions() map[string]string {
	out := make(map[string]string, len(t.held))
	for n, h := range t.held {
		out[n] = h.Version
	}
	return out
}

// Covers reports whether one of the names is that of a resource, or the glob that holds it (G6). All
// names are canonical.
func Covers(names map[string]bool, name string) bool {
	if names[name] {
		return true
	}
	glob := resource.GlobOf(name)
	return glob != "" && names[glob]
}
