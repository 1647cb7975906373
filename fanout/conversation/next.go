package conversation

import "xdsrelay/relay/cache"

// Reason is why a type waits instead of being sent.
type Reason uint8

const (
	// NothingNew: the client was sent all that there is for it.
	NothingNew Reason = iota
	// NotSubscribed: the client asks for nothing of the type (B4).
	NotSubscribed
	// Unknown: the control plane has not answered for what the client asks for (K13).
	Unknown
	// OriginUnreachable: the same, and no control plane is in reach.
	OriginUnreachable
	// Restoring: what is stored may be old, and the control plane is being asked.
	Restoring
	// AwaitingAck: the newest response has to be answered first (B9).
	AwaitingAck
	// AwaitingHead: the client holds something else than this node, which is behind the tier (K12).
	AwaitingHead
	// Ordered: another type has to be sent or answered first (E1-E8).
	Ordered
	// HeldAfterNack: the client has rejected the content, and nothing that it can see has changed
	// since (B14).
	HeldAfterNack
	// Paced: only content has changed since the last response, and the client is sent the changes of
	// an interval as one response at its end.
	Paced
	// Blocked: the transport has not taken the responses before.
	Blocked
	reasons
)

var reasonNames = [reasons]string{
	"", "not subscribed", "control plane has not answered", "control plane unreachable", "unconfirmed", "awaiting ACK",
	"behind the tier head", "ordered after another type", "held after NACK", "minimum interval", "client does not read",
}

// String is the reason in the words of the status; empty for [NothingNew].
func (r Reason) String() string { return reasonNames[r] }

// Act is what to do next for a type.
type Act uint8

const (
	// Wait: nothing, for the reason of the decision.
	Wait Act = iota
	// Ask: ask the cache what is new, and let [Conversation.Judge] decide on the answer.
	Ask
	// AskQuietly: first ask whether the client can see anything of what is new, since the type is
	// held after a NACK. If so, ask for all that it has not accepted.
	AskQuietly
	// AskNotes: ask for notes only, since content is held after a NACK.
	AskNotes
	// Send: send the answer.
	Send
	// SendEmpty: send an answer without resources, which the client waits for (B24).
	SendEmpty
	// Skip: the client counts as having the answer.
	Skip
	// SkipAndAsk: skip, and ask for the next part.
	SkipAndAsk
)

var actNames = [...]string{"Wait", "Ask", "AskQuietly", "AskNotes", "Send", "SendEmpty", "Skip", "SkipAndAsk"}

func (a Act) String() string { return actNames[a] }

// Decision is an act, and why nothing is sent if that comes to nothing.
type Decision struct {
	Act Act
	Why Reason
}

// MayAnswer returns why the client must not be sent anything, whatever is new; NothingNew if it may.
func (c *Conversation) MayAnswer(v *View) Reason {
	switch {
	case v.Interest == NoInterest: // B4
		return NotSubscribed
	case v.Knowledge == Unconfirmed:
		return v.Knowledge.lack()
	case v.Scope != cache.FullState:
		return NothingNew
	case c.Has(Switched): // K13: the client holds something already
		return v.Knowledge.lack()
	case c.Nonce == 0 && v.Interest.readsAbsence(): // K13
		return v.Knowledge.lack()
	}
	return NothingNew
}

// Due returns whether there may be resources or removals to send, of a table that has reached a
// generation: [ChangesDue] or [NothingDue].
func (c *Conversation) Due(gen uint64) Due {
	// A removal that was held back is no news.
	force := c.Force != nil && (!c.IsHeld() || c.Force != c.HeldRemovals)
	if gen > c.Sent.Gen || force || c.Resend != nil {
		return ChangesDue
	}
	return NothingDue
}

// Lags reports whether removals may have been held back from the newest response.
func (c *Conversation) Lags() bool {
	return c.Sent.Removed < c.Sent.Gen || c.HeldRemovals != nil && c.Force == c.HeldRemovals
}

// NeedsOrder reports whether [Conversation.Next] depends on whether removals that were held back still
// have to wait: if not, they are [RemovalsDue].
func (c *Conversation) NeedsOrder(v *View) bool {
	return c.IsHeld() && c.Lags() && !v.Due.hasChanges()
}

// MayPace reports whether [ChangesDue] may be [ChangesPaced]: the client was sent a state and has accepted
// it, and lacks only changes of that. All else is sent at once: a first state, names that the client
// asks for or must get again (B18, E3, E7), notes, what follows a NACK (B16), further parts (B40), removals
// that have waited for other types (E5), and what other types wait for.
func (c *Conversation) MayPace(v *View) bool {
	return v.Due.hasChanges() && v.Knowledge == Complete && v.Noted <= c.Sent.Noted && c.Sent.Gen > 0 && !c.Unanswered() && c.Verdict == Clean && !c.More &&
		c.Force == nil && c.Resend == nil && c.OnDemand == nil && !c.Lags() && !c.Has(FirstAnswerDue|Switched|Awaited)
}

// Next decides whether to ask the cache for a response. Where there is no news, [Conversation.NoNews]
// comes before it.
func (c *Conversation) Next(v *View) Decision {
	news := v.Due.hasChanges() || v.Due == RemovalsDue && c.NeedsOrder(v)
	switch {
	case !news && v.Noted <= c.Sent.Noted && c.IsHeld(): // B31
		return Decision{Why: HeldAfterNack}
	case !news && v.Noted <= c.Sent.Noted && !c.Lags() && !c.Has(FirstAnswerDue):
		return Decision{Why: v.Knowledge.lack()}
	case c.Phase == Awaiting:
		return Decision{Why: AwaitingAck}
	case v.Due == ChangesPaced && c.MayPace(v):
		return Decision{Why: Paced}
	case c.IsHeld() && !news:
		return Decision{AskNotes, HeldAfterNack}
	case c.IsHeld():
		return Decision{AskQuietly, HeldAfterNack}
	}
	return Decision{Act: Ask}
}

// Judge decides whether a, the answer to q, has to be sent.
func (c *Conversation) Judge(v *View, q *cache.Query, a *Answer) Decision {
	switch {
	case a.Extent == OnlyUnreachable && v.Responses == 0: // the stream is ended instead (K15)
		return Decision{Why: OriginUnreachable}
	case v.Scope == cache.FullState && c.Nonce == 0 && v.Knowledge != Complete && a.Extent != Resources:
		return Decision{Why: v.Knowledge.lack()} // K13: that some names do not exist says nothing of the others
	case a.Extent != Nothing:
		return Decision{Act: Send}
	case a.Rest == PartsLeft:
		return Decision{Act: SkipAndAsk}
	case c.Has(FirstAnswerDue) && v.Knowledge == Complete && a.Removals != cache.KeptFromNode: // B24
		return Decision{Act: SendEmpty}
	case q.KeepRemoved:
		return Decision{Skip, Ordered}
	}
	return Decision{Skip, v.Knowledge.lack()}
}

// MayGoAhead reports whether names that the client waits for may be sent while everything else of
// the type waits for other types (E7). After a NACK all that was rejected has to be sent first (B16).
func (c *Conversation) MayGoAhead() bool { return c.OnDemand != nil && c.Verdict == Clean }

// News is the query for the next response.
func (c *Conversation) News() cache.Query {
	return cache.Query{Since: c.Sent, Force: c.Force.With(c.OnDemand), Refresh: c.Resend}
}

// Demanded is the query for the names that the client waits for, ahead of the rest (E7).
func (c *Conversation) Demanded() cache.Query {
	return cache.Query{Since: c.Sent, Scope: cache.OnDemand, Force: c.OnDemand}
}

// Notes is the query for notes about what the client has accepted, while content is held after a NACK
// (B14).
func (c *Conversation) Notes() cache.Query {
	since := c.Acked
	since.Noted = c.Sent.Noted
	return cache.Query{Since: since, Scope: cache.NotesOnly, Except: c.ForceUnacked.With(c.Force).With(c.ResendUnacked)}
}

// Unaccepted is the query q with all that the client was sent and has not accepted: what it
// rejected counts as unknown to it (B16).
func (c *Conversation) Unaccepted(q cache.Query) cache.Query {
	q.Since, q.Basis = c.Acked, cache.RejectedSince
	q.Force, q.Refresh = q.Force.With(c.ForceUnacked), q.Refresh.With(c.ResendUnacked)
	return q
}

// MayKeepRemovals reports whether removals after since may be held back for other types. A client
// that holds nothing needs no delay of removals. A client that subscribes to the wildcard again is
// not such a client: it may still route to what is removed.
func (c *Conversation) MayKeepRemovals(since cache.Position, supplier bool) bool {
	return c.Has(Resubscribed) || (supplier || since.Gen > 0) && since.Removed <= since.Gen
}
