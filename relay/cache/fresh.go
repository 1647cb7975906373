package cache

import (
	"time"

	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/link"
)

// Fresh reports whether the content of a stream's tables is what its control plane serves now: the
// stream is established, and has answered.
func (f *Feed) Fresh() bool {
	if f.group.unreachable(1 << f.stream) {
		return false
	}
	for _, t := range f.group.Tables() {
		if t.awaits(f.stream) {
			return false
		}
	}
	return true
}

// LastChange returns when the stream's control plane last changed, itself, content that was there; zero
// for never.
func (f *Feed) LastChange() (last time.Time) {
	for _, t := range f.group.Tables() {
		t.mu.RLock()
		if at := t.core.streams[f.stream].changed; at.After(last) {
			last = at
		}
		t.mu.RUnlock()
	}
	return last
}

// Doubt records that the content of a stream's tables may be old until its control plane has
// answered: it is from elsewhere, or the key was idle.
func (f *Feed) Doubt() {
	now := time.Now()
	for _, t := range f.group.Tables() {
		t.mu.Lock()
		if stream := &t.core.streams[f.stream]; t.core.store.Gen() > 0 {
			t.core.effect(f.stream, stream.confidence.Moved(), nil)
			if t.core.demand.Stream(f.stream).Wanted() > 0 {
				t.core.askedAgain(f.stream, now)
			}
		}
		t.mu.Unlock()
	}
}

// askedAgain records that a new stream still has to answer.
func (t *core) askedAgain(by int, now time.Time) {
	t.streams[by].confidence.AskedAgain(now, t.streamAsOf(by, now))
}

// Borrow records whether the stream is to another node from now on, or to its control plane. The
// previous stream has ended, and there is none yet.
func (f *Feed) Borrow(is bool) {
	to := link.ControlPlane
	if is {
		to = link.OtherNode
	}
	f.group.mu.Lock()
	f.group.streams[f.stream].link.Move(to, time.Now())
	f.group.mu.Unlock()
	f.group.forgetAssumed(f.stream)
	f.group.signalNeeds()
}

// isBorrowed reports whether a stream is to another node. It may be called with a table's mu held.
func (g *Group) isBorrowed(stream int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams[stream].link.IsBorrowed()
}

// Doubtful reports whether another node with content of the table may have newer content: this
// content was restored, or is from before the key was idle, or from another node, or the control
// plane was unreachable, and has not answered since. cut says that the control plane is unreachable
// now. For restored and idle content the control plane gets no versions, so it has to answer,
// however long that takes; a control plane that was only unreachable may have nothing to send, so
// its silence counts after [confidence.Silence]. The content is doubtful to a node as well that
// still has to be asked (see [Feed.Unasked]).
func (t *Table) Doubtful(node string) (is, cut bool) {
	var wanted, old uint64 // sets of streams
	now := time.Now()
	t.mu.RLock()
	for i := range t.core.streams {
		stream := &t.core.streams[i]
		if t.core.demand.Stream(i).Wanted() > 0 {
			wanted |= 1 << i
		}
		if stream.confidence.Is(confidence.Older, now) {
			old |= 1 << i
		}
	}
	t.mu.RUnlock()
	g := t.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.streams {
		if wanted&(1<<i) == 0 {
			continue
		}
		l := &g.streams[i].link
		is = is || l.IsDown() || l.IsBorrowed() || old&(1<<i) != 0 || l.Unasked(node, now)
		cut = cut || l.IsDown()
	}
	return is, cut
}

// awaits reports whether a stream's control plane still has to answer for the table.
func (t *Table) awaits(stream int) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.streams[stream].confidence.Is(confidence.Open, time.Now()) || t.core.waitsForOthers(stream, false)
}
