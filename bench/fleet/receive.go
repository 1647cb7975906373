package fleet

import (
	"time"

	"xdsrelay/bench/fleet/h2"
)

// Message takes a response: it checks it, takes it over and answers it.
func (c *client) Message(from *h2.Stream, m h2.Message) {
	at := time.Now().UnixNano()
	c.link.answered, c.tries = true, 0
	scratch := takeScratch()
	defer scratches.Put(scratch)
	e, err := readMessage(&m, scratch[:0])
	if err != nil {
		c.violates(problemf(Malformed, "a response of %d bytes: %v", m.Len(), err))
		c.meter.response(at, m.Len(), nil, nil, c.role)
		return
	}
	k, known := kindOf(e.url)
	if !known || c.subs[k].stream != from || !c.subs[k].said {
		c.violates(problemf(UnaskedType, "a response of type %q", e.url))
		c.meter.response(at, m.Len(), nil, nil, c.role)
		return // without an answer (C10)
	}
	s := &c.subs[k]
	unknown := (*set)(nil) // what was rejected, so that the client may have it or not
	if s.rejected != 0 {
		unknown = s.allow
	}
	c.checkNonce(k, e.nonce)
	b, st := c.view.take(k, &e, &m, stepKey{from: s.state.Load(), asked: s.asked, allow: s.allow.union(s.again)})
	c.violates(st.problems...)
	if b.hash == s.rejected {
		c.violates(problemf(ResentRejected, "a response of %d resources of type %s", b.size(), k.info().name))
	}
	if !c.link.fleet.cfg.Delta {
		s.nonce = append(s.nonce[:0], e.nonce...)
	}
	child := k.info().child
	parent := child != kinds && c.link.fleet.types.has(child)
	// E3: also what was rejected, and of clusters that are, and once more of what follows those.
	if changed := st.changed.union(b.names.minus(b.names.minus(unknown))); parent && changed != nil {
		c.subs[child].allow = c.subs[child].allow.union(changed)
		c.subs[child].rejected = 0
	}
	refusal := b.bad
	if c.role == rejecting && c.synced.Load() {
		refusal = "rejected on purpose"
	}
	if text := c.react(b); text != "" {
		refusal = text
	}
	if refusal != "" {
		s.rejected = b.hash
		s.allow = s.allow.union(b.names) // B16: what was in it counts as not held
		c.meter.response(at, m.Len(), b, nil, c.role)
		c.meter.answered(0, 1, 0)
		c.answer(k, e.nonce, refusal)
		return
	}
	s.rejected, s.allow = 0, st.allow
	// Whoever waits for the state finds what led to it counted.
	c.meter.response(at, m.Len(), b, st, c.role)
	s.state.Store(st.to)
	c.answer(k, e.nonce, "")
	requests := int64(0)
	if parent && !c.half && c.want(child, st.to.has) {
		requests++
	}
	c.meter.answered(1, 0, requests)
	c.look(at)
	if c.role == stuck && c.synced.Load() {
		c.link.conn.Load().Pause()
	}
}

// violates counts violations.
func (c *client) violates(found ...problem) {
	if len(found) > 0 {
		c.link.fleet.violations.add(c.String(), found...)
	}
}

func (c *client) checkNonce(k kind, nonce []byte) {
	switch {
	case len(nonce) == 0:
		c.violates(problemf(NoNonce, "a response of type %s", k.info().name))
	case c.subs[k].nonces.repeated(nonce), c.audit.repeated(k, nonce):
		c.violates(problemf(RepeatedNonce, "%q of type %s", nonce, k.info().name))
	}
}
