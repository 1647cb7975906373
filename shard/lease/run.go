package lease

import (
	"context"
	"math/rand/v2"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// run renews the lease until ctx ends.
func (m *Members) run(ctx context.Context) {
	defer close(m.ended)
	hints := m.cfg.Store.Hints(ctx, store.MemberHints)
	timer := time.NewTimer(0) // due to renew
	defer timer.Stop()
	var due time.Time
	for {
		select {
		case <-ctx.Done():
			return // the store waits for the end of the hints
		case <-m.wake:
		case <-timer.C:
		case _, ok := <-hints:
			if !ok {
				hints = nil // the store is closed
				continue
			}
			// Other nodes receive the hint, too; the delay also batches further changes.
			if soon := rand.N(m.soon()); time.Until(due) > soon {
				due = time.Now().Add(soon)
				timer.Reset(soon)
			}
			continue
		}
		wait := m.cfg.Lease * 3 / 10
		if m.call(ctx) != nil {
			wait = min(m.cfg.Lease/10, 2*time.Second) // costs nothing while Redis is known to be down
		}
		wait += rand.N(m.cfg.Lease / 30)
		if end := m.firstEnd(); !end.IsZero() {
			wait = min(wait, max(time.Until(end)+time.Millisecond, m.soon()))
		}
		due = time.Now().Add(wait)
		timer.Reset(wait)
	}
}

// soon is the delay of a change that is not urgent, to batch it with others.
func (m *Members) soon() time.Duration { return min(m.cfg.Lease/50, 200*time.Millisecond) }

// firstEnd returns when the first lease in the book ends.
func (m *Members) firstEnd() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.next()
}

// call renews the lease, and reads the other members.
func (m *Members) call(ctx context.Context) error {
	select {
	case m.calling <- struct{}{}:
		defer func() { <-m.calling }()
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	self, urgent, entered := m.self, m.urgent, m.entered
	m.urgent = false
	_, elder := m.book.known[self.Name]
	m.mu.Unlock()

	a, err := m.ask(ctx, self, urgent, elder, entered)

	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.urgent = m.urgent || urgent
		m.book.failed()
		return err
	}
	now := time.Now()
	m.noteNameLocked(a)
	m.noteForeignLocked(a.foreign)
	joined, left, ended := m.book.read(now, a.found)
	for _, c := range joined {
		m.cfg.Logger.Info("node joined the tier", events.Key, events.NodeJoined, "member", c.Name, "peer", c.Peer)
	}
	for _, e := range ended {
		if m.current.Left(e) {
			left = append(left, e) // it ended before it could announce the end of its drain
			continue
		}
		m.cfg.Logger.Warn("node disappeared from the tier without draining: its lease expired", events.Key, events.NodeDisappeared, "member", e.Name, "peer", e.Peer)
	}
	for _, l := range left {
		m.current.NoteLeaver(l)
		m.cfg.Logger.Info("node left the tier", events.Key, events.NodeLeft, "member", l.Name, "peer", l.Peer)
	}
	m.current.Hear(now)
	m.showLocked()
	return nil
}

// ask makes the call, which announces this node if it has entered.
func (m *Members) ask(ctx context.Context, self shard.Member, urgent, yields, entered bool) (answer, error) {
	text, err := record(self)
	if err != nil {
		return answer{}, err
	}
	text = m.sign(text)
	flag := map[bool]string{true: "1", false: "0"}
	reply, err := m.cfg.Store.Run(ctx, m.renew, []string{m.name},
		self.Name, micros(self.Since), self.Incarnation, text, m.cfg.Lease.Milliseconds(), m.cfg.Store.Channel(store.MemberHints), flag[urgent], flag[yields], flag[entered])
	if err != nil {
		return answer{}, err
	}
	return readAnswer(reply, m.verified)
}

// noteNameLocked logs once when another node has the name of this one, or no longer has. It
// requires mu.
func (m *Members) noteNameLocked(a answer) {
	if a.taken != m.taken {
		m.taken = a.taken
		if a.taken {
			for _, f := range a.found {
				if f.member.Name == m.self.Name {
					m.cfg.Logger.Error("another node has the same name and started later; it owns the name, and this node owns no keys",
						events.Key, events.NodeNameConflict, "name", m.self.Name, "peer", f.member.Peer)
				}
			}
		} else {
			m.cfg.Logger.Info("no other node has this node's name anymore", "name", m.self.Name)
		}
	}
	if !a.taken {
		delete(m.book.known, m.self.Name)
	}
}
