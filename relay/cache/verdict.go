package cache

import (
	"time"

	"xdsrelay/relay/resource"
)

// The control plane gets the verdict of canaries on a revision, too: the feed of its stream takes one for each
// type, and compares it with the changes that its newest response has carried. So a verdict about something
// else than the stream has carried last does nothing.

// Outcome is the decision of a verdict.
type Outcome uint8

const (
	// VerdictPasses: they have accepted it, or do not answer soon.
	VerdictPasses Outcome = iota
	// VerdictFails: it fails, and the control plane gets a NACK, or a report if the ACK was sent.
	VerdictFails
	// VerdictFailsInTime: it fails, and the control plane gets a NACK unless the ACK was sent.
	VerdictFailsInTime
)

// Verdict is the decision about the changes of a type.
type Verdict struct {
	Type    *resource.Type
	Outcome Outcome
	// Change identifies the changes; see [Carried].
	Change resource.Digest
	// Reason names the resources and the error, for the control plane. It has no secrets.
	Reason string
}

// maxVerdicts bounds the verdicts that no feed has taken: those before are about older revisions.
const maxVerdicts = 64

// Judge gives the streams of the overlay's types a verdict. reason returns why the revision fails because of
// a type; "" if that type is not why, so that it passes. It may be nil for [VerdictPasses].
func (o *Overlay) Judge(is Outcome, reason func(*resource.Type) string) {
	if o == nil {
		return
	}
	for i := range o.parts {
		p := &o.parts[i]
		v := Verdict{Type: p.table.Type, Outcome: is, Change: p.pending}
		if reason != nil {
			v.Reason = reason(v.Type)
		}
		if v.Reason == "" {
			v.Outcome = VerdictPasses
		}
		o.group.judge(p.by, v)
	}
}

func (g *Group) judge(stream int, v Verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := &g.streams[stream]
	if l.listener == nil || len(l.verdicts) == maxVerdicts {
		return // nothing of the stream waits, or it is far behind
	}
	l.verdicts = append(l.verdicts, v)
	signal(l.listener)
}

// TakeVerdicts returns the verdicts since the last call, the oldest first.
func (f *Feed) TakeVerdicts() (all []Verdict) {
	f.group.mu.Lock()
	defer f.group.mu.Unlock()
	l := &f.group.streams[f.stream]
	if f.ctx.Err() == nil {
		all, l.verdicts = l.verdicts, nil
	}
	return all
}

// Carried is what a response has carried of what is pending.
type Carried struct {
	// Change identifies all that is pending of the type after the response, if the response carried any of
	// it. The zero value is nothing.
	Change resource.Digest
	// Wait is how long its ACK may wait until canaries have answered; 0 if it has changed nothing that is
	// pending, or no canary gets that soon.
	Wait time.Duration
}

// PendingEdits counts the changes of what is pending of a type.
func (f *Feed) PendingEdits(typ *resource.Type) uint64 {
	t := f.group.lookup(typ)
	if t == nil {
		return 0
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.core.edits(f.stream)
}

// Carried returns what an update that was applied has carried. before is what [Feed.PendingEdits] returned
// before it was applied.
func (f *Feed) Carried(u *Update, before uint64) (c Carried) {
	t := f.group.lookup(u.Type)
	if t == nil {
		return c
	}
	set := f.group.gates()
	t.mu.RLock()
	defer t.mu.RUnlock()
	g := t.core.streams[f.stream].gate
	if g == nil || g.parks || g.Len() == 0 || !set.governor.governs(u.Type.URL) || !g.isIn(u) {
		return c
	}
	c.Change = g.Digest()
	if !set.held && g.Edits() != before {
		c.Wait = set.governor.Wait
	}
	return c
}

// isIn reports whether an update has some of what is pending.
func (g *streamGate) isIn(u *Update) bool {
	if u.Full {
		return true // what it leaves out is removed
	}
	for _, r := range u.Resources {
		if _, pending := g.Get(r.Key); pending {
			return true
		}
	}
	for _, n := range u.Removed {
		if _, pending := g.Get(resource.Canonical(n)); pending {
			return true
		}
	}
	return false
}
