package cache

import (
	"time"

	"xdsrelay/relay/resource"
)

// Query asks what must be sent to a client. The zero value asks for everything, for a client without
// TTLs that has nothing.
type Query struct {
	Since Position
	// Basis is what the client has of what it was sent.
	Basis Basis
	Scope Scope
	// Force are names to be sent even if unchanged, and to be reported as removed if they do not
	// exist or are not subscribed.
	Force *Names
	// Refresh are names to be sent even if unchanged, as far as they are subscribed and exist (E3).
	Refresh *Names
	// Except are names whose heartbeats are omitted, with [NotesOnly].
	Except *Names
	// Limit bounds the answer, in bytes of its resources and removed names; the rest is left to the
	// next answer (B40). A single resource may be larger. 0: no bound. A full state is never divided.
	Limit int
	// KeepRemoved holds removals back: they are not reported, and a full state includes what was
	// removed since the position (E5). It is for clients that were sent something before.
	KeepRemoved bool
	// OmitAssumed omits names that count as absent by the silence of the control plane alone, so that
	// they are not held back either.
	OmitAssumed bool
	// Keep are names whose removal is not reported: see [Table.Kept].
	Keep   *Names
	Reader Reader
	// At is the moment for which TTLs are computed; zero: now.
	At time.Time
	// View replaces some names of the table; nil for most clients.
	View *View
}

// Scope is what an answer may contain.
type Scope uint8

const (
	// News: changes, the names to force and to refresh, and notes.
	News Scope = iota
	// QuietNews: the same without notes, which are left to a later answer.
	QuietNews
	// FullState: everything that the subscription sees, if there is anything to send at all: the full
	// state of a SotW response.
	FullState
	// QuietFullState: the same without notes.
	QuietFullState
	// OnDemand: only the forced names, ahead of changes that have to wait (E7). The position is
	// unchanged as long as anything was omitted.
	OnDemand
	// QuietOnDemand: the same without errors about those names.
	QuietOnDemand
	// NotesOnly: errors, and heartbeats of what had changed by the generation of the position.
	NotesOnly
)

var scopeNames = [...]string{"news", "quiet news", "full state", "quiet full state", "on demand", "quiet on demand", "notes only"}

func (s Scope) String() string { return scopeNames[s] }

// Quiet returns the scope that omits all notes; [NotesOnly] has none.
func (s Scope) Quiet() Scope {
	switch s {
	case News, FullState, OnDemand:
		return s + 1
	}
	return s
}

// IsOnDemand reports whether an answer has only the forced names.
func (s Scope) IsOnDemand() bool { return s == OnDemand || s == QuietOnDemand }

func (s Scope) isWhole() bool { return s == FullState || s == QuietFullState }

func (s Scope) isQuiet() bool { return s == QuietNews || s == QuietFullState || s == QuietOnDemand }

// Basis is what a client has of what it was sent up to a position and after it.
type Basis uint8

const (
	// AsSent: it has everything up to the position.
	AsSent Basis = iota
	// Spared: the same, and resources need not be resent because of errors that other nodes sent; see
	// [SubscriptionState.Basis].
	Spared
	// RejectedSince: it has rejected what it was sent after the position, so it may have rejected a
	// removal that was undone since.
	RejectedSince
)

// Reader is the kind of the client that gets an answer.
type Reader uint8

const (
	// PlainClient has no TTLs, and so no heartbeats.
	PlainClient Reader = iota
	// TTLClient supports TTLs (F1): it gets them, as they are at the moment of the query, and
	// heartbeats.
	TTLClient
	// OtherNode is another node of the tier. It is a TTLClient that gets the names of resources that
	// must not be shared, without the resources, and no errors of this relay's own.
	OtherNode
)

func (r Reader) takesTTLs() bool { return r != PlainClient }

// QueryKey identifies queries with the same answer, for one subscription in one state and one limit.
type QueryKey struct {
	since                        Position
	force, refresh, except, keep resource.Digest
	view                         uint64
	at                           int64 // in nanoseconds; 0: now
	basis                        Basis
	scope                        Scope
	reader                       Reader
	keepRemoved                  bool
	omitAssumed                  bool
}

// Key returns the key of q.
func (q *Query) Key() QueryKey {
	k := QueryKey{
		since: q.Since, force: q.Force.digest(), refresh: q.Refresh.digest(), except: q.Except.digest(), keep: q.Keep.digest(), view: q.View.ID(),
		basis: q.Basis, scope: q.Scope, reader: q.Reader, keepRemoved: q.KeepRemoved, omitAssumed: q.OmitAssumed,
	}
	if !q.At.IsZero() {
		k.at = q.At.UnixNano()
	}
	return k
}
