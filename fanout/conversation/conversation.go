package conversation

import "xdsrelay/relay/cache"

// Mode says what a SotW request without names asks for (B19-B21).
type Mode uint8

const (
	// Implicit: everything, since the stream has named nothing of the type yet.
	Implicit Mode = iota
	// Named: nothing.
	Named
)

// Mark is a fact about a conversation that no phase or verdict implies.
type Mark uint8

const (
	// FirstAnswerDue: a wildcard waits for its first answer, even an empty one (B24).
	FirstAnswerDue Mark = 1 << iota
	// Switched: the newest response was about another table.
	Switched
	// Resubscribed: the client subscribed to the wildcard again and still holds what it got from the
	// one before, so removals may have to wait for other types.
	Resubscribed
	// Unreachable: the client asks for something that no control plane in reach can be asked for
	// (K15).
	Unreachable
	// Crossed: the client has dropped something that an unanswered response may have.
	Crossed
	// Proven: the client was sent nothing, since the version that it returned with proves that it has
	// everything (B39).
	Proven
	// Awaited: another type has to be sent after the changes of this one (E2, E5, E8), so they do not
	// wait for the end of an interval.
	Awaited
)

// Conversation is what a stream knows about one type. The caller guards it. The zero value holds
// nothing; a new one starts at [cache.Start].
type Conversation struct {
	// Sent and Acked are the positions after the last response that was sent, and the last that the
	// client accepted.
	Sent, Acked cache.Position

	// Force and Resend are names that the next response must have: Force in any case, and Resend as
	// far as they are subscribed and exist. ForceUnacked and ResendUnacked are those of the responses
	// since Acked, which are sent again if the client rejects them (B16).
	Force, Resend               *cache.Names
	ForceUnacked, ResendUnacked *cache.Names
	// HeldRemovals is Force, where that is just removals that were held back.
	HeldRemovals *cache.Names
	// OnDemand are names that the client waits for and that it was not sent (E7).
	OnDemand *cache.Names

	// Nonce is that of the newest response, 0 before the first.
	Nonce uint64
	// Bytes are those of unanswered responses.
	Bytes int
	// newest is the generation that the table had when the newest response with content was made,
	// and taintedAt that of the response that was NACKed.
	newest, taintedAt uint64

	State
	Mode  Mode
	marks Mark
	// Wait is why nothing was sent when the type was last looked at.
	Wait Reason
}

// Has reports whether a mark is set.
func (c *Conversation) Has(m Mark) bool { return c.marks&m != 0 }

// Mark sets a mark, or clears it.
func (c *Conversation) Mark(m Mark, on bool) {
	c.marks &^= m
	if on {
		c.marks |= m
	}
}

// Result is the outcome of a query, which was sent or has nothing to send.
type Result struct {
	// To is the position of a client that has it, and Newest the generation that the table had.
	To     cache.Position
	Newest uint64
	// More says that further parts follow.
	More bool
	// Withheld and Unrefreshed are names to be sent later, and Unknown those that nothing is known
	// about.
	Withheld, Unrefreshed, Unknown *cache.Names
}

// apply moves along the table and applies the effects on positions and debts.
func (c *Conversation) apply(e Event) Effect {
	effect := c.step(e)
	if effect == 0 {
		return 0
	}
	if effect&Accept != 0 {
		c.Acked, c.ForceUnacked, c.ResendUnacked = c.Sent, nil, nil
	}
	if effect&Taint != 0 {
		c.taintedAt = c.newest
	}
	if effect&Hold != 0 {
		c.Sent.Gen = min(c.Sent.Gen, c.taintedAt)
	}
	if effect&(Cross|Uncross) != 0 {
		c.Mark(Crossed, effect&Cross != 0)
	}
	return effect
}

// Commit records that the response to q was sent, r, with a nonce.
func (c *Conversation) Commit(q *cache.Query, r *Result, nonce uint64, size int) {
	c.Nonce, c.Bytes = nonce, c.Bytes+size
	switch {
	case q.Scope == cache.NotesOnly: // the client holds the rest as before
		c.apply(SentNotes)
		c.Sent.Noted = r.To.Noted
		return
	case q.Scope.IsOnDemand():
		c.apply(SentOnDemand)
	case r.More:
		c.apply(SentPart)
	default:
		c.apply(SentContent)
	}
	if c.Acked == cache.Start {
		// Nothing can have been removed from a client that had nothing.
		c.Acked.Removed = r.To.Removed
	}
	c.Sent, c.newest = r.To, r.Newest
	c.ForceUnacked, c.ResendUnacked = c.ForceUnacked.With(q.Force), c.ResendUnacked.With(q.Refresh)
	c.owe(q, r)
	c.marks &^= FirstAnswerDue | Switched | Proven | Awaited
}

// Prove records that the version that the client returned with proves that it has everything up to a
// position (B39).
func (c *Conversation) Prove(to cache.Position) {
	c.Sent, c.Acked = to, to
	c.Mark(FirstAnswerDue, false)
	c.Mark(Proven, true)
}

// CommitErrors records that a response was sent that says nothing of resources: what the client
// holds of them, and what it rejected, is unchanged.
func (c *Conversation) CommitErrors(nonce uint64, size int) {
	c.Nonce, c.Bytes = nonce, c.Bytes+size
	c.apply(SentErrors)
}

// SkipTo records that there is nothing to send on the way to the position of r.
func (c *Conversation) SkipTo(q *cache.Query, r *Result) {
	if c.Acked == c.Sent && c.Verdict == Clean {
		c.Acked = r.To
	}
	c.Sent = r.To
	c.Mark(Awaited, false)
	c.owe(q, r)
	if r.More {
		c.apply(SkippedPart)
	} else {
		c.apply(Skipped)
	}
}

// owe records the names that are to be sent after r.
func (c *Conversation) owe(q *cache.Query, r *Result) {
	if q.Scope.IsOnDemand() { // the rest is unchanged
		c.Force = c.Force.Without(q.Force.List).With(r.Withheld)
		c.OnDemand = r.Unknown.With(r.Withheld)
		return
	}
	c.Force, c.Resend, c.HeldRemovals = r.Withheld, r.Unrefreshed, nil
	if q.KeepRemoved && !r.More {
		c.HeldRemovals = r.Withheld
	}
	if c.OnDemand != nil {
		c.OnDemand = r.Unknown
	}
}

// NoNews records that the table has nothing newer than what was sent.
func (c *Conversation) NoNews() { c.apply(NoNews) }

// ACK records that the client accepts the newest response. It returns how many bytes that frees, and
// whether the client has now accepted all that it was sent.
func (c *Conversation) ACK() (freed int, all bool) {
	effect := c.apply(ACK)
	return c.settle(effect), effect&Accept != 0
}

// NACK records that the client rejects the newest response. It returns how many bytes that frees.
//
// The parts that follow it have nothing that the client has rejected, so they are sent all the same.
// Then the type is held (B14), and with news everything is sent again (B16).
func (c *Conversation) NACK() (freed int) { return c.settle(c.apply(NACK)) }

func (c *Conversation) settle(effect Effect) (freed int) {
	if effect&Settle != 0 {
		freed, c.Bytes = c.Bytes, 0
	}
	return freed
}

// LateNACK records that the client rejects the response with an older nonce. It reports whether that
// counts: it does not if the newest response is answered, or repeats all that was rejected.
func (c *Conversation) LateNACK(nonce uint64) bool {
	return nonce < c.Nonce && c.apply(LateNACK)&Record != 0
}

// AckTimeout records that the newest response was not answered in time.
func (c *Conversation) AckTimeout() { c.apply(AckTimeout) }

// Forgotten records that the client may have forgotten the newest response.
func (c *Conversation) Forgotten() { c.apply(Forgotten) }

// Switch records that the type is served from another table, of which the client was sent nothing.
// While an answer is awaited, it has to wait.
func (c *Conversation) Switch() {
	c.Sent, c.Acked = cache.Start, cache.Start
	c.Force, c.Resend, c.HeldRemovals, c.ForceUnacked, c.ResendUnacked = nil, nil, nil, nil, nil
	c.apply(TableSwitched)
	c.marks &^= Resubscribed | Proven | Awaited
	c.Mark(Switched, true)
}

// Edit records what a request changed about the subscription, and whether it asks for the wildcard
// once more (B35).
func (c *Conversation) Edit(ed *cache.Edited, wildcardAgain bool) {
	if len(ed.Added) > 0 || ed.Wildcard || ed.Left {
		c.Mark(Proven, false)
	}
	if len(ed.Removed) > 0 || ed.Left {
		c.apply(Unsubscribe)
	}
	if len(ed.Removed) > 0 {
		for _, n := range []**cache.Names{&c.Force, &c.Resend, &c.ForceUnacked, &c.ResendUnacked, &c.OnDemand} {
			*n = (*n).Without(ed.Removed)
		}
	}
	if ed.Wildcard || wildcardAgain {
		c.restart(ed.Wildcard)
	}
	if c.Sent.Gen > 0 || c.Sent.Noted > 0 { // otherwise everything is sent anyway
		c.Force = c.Force.With(cache.NewNames(ed.Added)) // B18
	}
}

// SendAgain makes everything due again, as if the client had asked for it once more (B35), for a type
// that is held after a NACK, too. An unanswered response has to be answered first. A type of which
// nothing was sent yet is unchanged.
func (c *Conversation) SendAgain() {
	if c.Sent == cache.Start {
		return
	}
	due := c.Has(FirstAnswerDue)
	c.restart(false)
	c.Mark(FirstAnswerDue, due) // the client does not wait for an answer without resources
}

// restart makes everything due: the whole set is new to the client, and it waits for it (B24).
func (c *Conversation) restart(fresh bool) {
	c.Mark(FirstAnswerDue, true)
	switch {
	case fresh && !c.Unanswered():
		c.Acked = cache.Start // it kept nothing that could be removed
		c.Mark(Resubscribed, false)
	case c.Acked.Removed <= c.Acked.Gen:
		c.Mark(Resubscribed, true)
	}
	// The client keeps an unanswered response as far as the new wildcard covers it, so removals
	// since then count (B33).
	c.Acked.Gen, c.Acked.Noted = 0, 0
	c.Sent = c.Acked
}
