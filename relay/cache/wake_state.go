package cache

// WakeState is what decides whether a wake of a subscription's clients may be delayed.
type WakeState struct {
	// Subscription identifies its content, like [SubscriptionState.Subscription].
	Subscription uint64
	// Gen is the newest generation that it may see, and Noted and Heartbeat the newest notes.
	Gen, Noted, Heartbeat uint64
	// Missing is how many of its names have no resource; 0 if that cannot be counted at once.
	Missing int
	// Settled says that the control planes have answered for all of it and confirmed what is stored,
	// and that it may be shared: nobody waits for an answer.
	Settled bool
	// Prompt says that some of its clients must be woken at once whatever has changed; see
	// [Table.Pace].
	Prompt bool
}

// OnlyContent reports whether nothing but contents have changed from s to a newer state: a change
// that may be delayed for clients that agree to it.
func (s *WakeState) OnlyContent(newer WakeState) bool {
	before := *s
	before.Gen, before.Prompt = newer.Gen, newer.Prompt
	return newer.Settled && newer.Gen > s.Gen && before == newer
}

// WakeState returns the present one. The cost does not depend on the number of names.
func (s *Subscription) WakeState() WakeState {
	t := s.table
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := WakeState{
		Subscription: s.id, Gen: s.gen, Noted: s.noted, Heartbeat: s.heartbeat, Prompt: s.watchers != nil,
		Settled: t.core.known(s) && !s.private && !t.core.held(s) && !t.group.cache.asleep(),
	}
	if s.hasPlainNames() {
		w.Missing = len(s.names) - s.live
	}
	for i := range t.core.streams {
		w.Settled = w.Settled && t.core.streams[i].confidence.Since().IsZero()
	}
	return w
}

// Pace records that the client of w agrees to wakes that come later, or takes that back. A new
// watcher has not agreed, and one whose subscription is edited may have to agree again.
func (t *Table) Pace(w *Watcher, agrees bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := w.sub; s != nil {
		s.unlink(w)
		s.linkTo(s.listOf(agrees), w)
	}
}

// PromptWatchers appends the clients of s that have not agreed to later wakes to buf.
func (s *Subscription) PromptWatchers(buf []Client) []Client {
	s.table.mu.RLock()
	defer s.table.mu.RUnlock()
	for w := s.watchers; w != nil; w = w.next {
		buf = append(buf, w.Client)
	}
	return buf
}
