package conversation

import "xdsrelay/relay/cache"

// View is what a subscription sees of its table now.
type View struct {
	// Noted is the newest note that the client may see, and Due what it lacks besides notes.
	Noted uint64
	Due   Due
	// Interest is what the client asks for, and Knowledge what is known of that.
	Interest  Interest
	Knowledge Knowledge
	// Scope is that of responses with content: [cache.FullState] for SotW listeners and clusters, and
	// [cache.News] otherwise.
	Scope cache.Scope
	// Responses is how many responses the stream was sent, of all types.
	Responses uint64
}

// Due is what a client lacks besides notes.
type Due uint8

const (
	// NothingDue: nothing, or only removals that have to wait for other types.
	NothingDue Due = iota
	// RemovalsDue: only removals that were held back and need not wait any longer. The shell asks for
	// it only where [Conversation.NeedsOrder] says so.
	RemovalsDue
	// ChangesDue: resources or removals.
	ChangesDue
	// ChangesPaced: the same, and what was sent last is as new as the content at the begin of an
	// interval that is not over. The shell asks for it only where [Conversation.MayPace] says so.
	ChangesPaced
)

// hasChanges reports whether the table has something newer, paced or not.
func (d Due) hasChanges() bool { return d >= ChangesDue }

// Interest is what a client asks for of a type.
type Interest uint8

const (
	// NoInterest: nothing (B4).
	NoInterest Interest = iota
	// ByName: names alone.
	ByName
	// ByNameWithVersion: names alone, and the client has named a version that it holds, which is not
	// compared yet.
	ByNameWithVersion
	// Wildcard: the wildcard, with or without names and a version.
	Wildcard
)

// InterestOf returns the interest of a client with a subscription. named says that the client has named
// a version that it holds, which is not compared yet.
func InterestOf(h *cache.SubscriptionState, named bool) Interest {
	switch {
	case h.HasWildcard():
		return Wildcard
	case h.IsEmpty():
		return NoInterest
	case named:
		return ByNameWithVersion
	}
	return ByName
}

// readsAbsence reports whether the client takes what a first full state leaves out for removed: it
// holds it, or takes the state for complete. Other clients get the existing ones of the names that they
// ask for (B25).
func (i Interest) readsAbsence() bool { return i >= ByNameWithVersion }

// Knowledge is what is known of the content that a subscription sees.
type Knowledge uint8

const (
	// Incomplete: the control plane has not answered for all of it (K13).
	Incomplete Knowledge = iota
	// OutOfReach: the same, and no control plane is in reach.
	OutOfReach
	// Unconfirmed: it may be old, and the control plane is being asked, whatever it has answered before.
	// Nothing should be sent yet.
	Unconfirmed
	// Complete: the control planes have answered for all of it.
	Complete
)

var knowledgeOf = [...]Knowledge{cache.Awaited: Incomplete, cache.OutOfReach: OutOfReach, cache.Answered: Complete}

// KnowledgeOf returns what is known of the content of a subscription.
func KnowledgeOf(h *cache.SubscriptionState) Knowledge {
	if h.Held {
		return Unconfirmed
	}
	return knowledgeOf[h.Answer]
}

var lacks = [...]Reason{Incomplete: Unknown, OutOfReach: OriginUnreachable, Unconfirmed: Restoring, Complete: NothingNew}

// lack is the reason to wait for what is not known.
func (k Knowledge) lack() Reason { return lacks[k] }

// Answer is what [Conversation.Judge] has to know of an answer of the cache.
type Answer struct {
	Extent   Extent
	Rest     Rest
	Removals cache.Removals
}

// Extent is what an answer says.
type Extent uint8

const (
	// Nothing: there is nothing to send.
	Nothing Extent = iota
	// OnlyUnreachable: only that the control plane is unreachable (K15).
	OnlyUnreachable
	// NoResources: something, but no resources.
	NoResources
	// Resources: at least one resource.
	Resources
)

// Rest is what an answer leaves to later ones.
type Rest uint8

const (
	// NothingLeft: nothing.
	NothingLeft Rest = iota
	// UnknownLeft: what the control plane has not answered for.
	UnknownLeft
	// PartsLeft: further parts of the content (B40).
	PartsLeft
)
