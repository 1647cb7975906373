package shard

import (
	"context"
	"time"
)

// Missing is a node that should be there.
type Missing struct {
	Member Member
	// Heard is when it last answered, or before it did when this node began to ask it;
	// Err is why it does not.
	Heard time.Time
	Err   error
}

// Members knows who is there. There are three: [Solo], a node on its own, [Static],
// a list, and the one of package shard/lease, in Redis. All methods are safe for
// concurrent use.
type Members interface {
	// Self is this node.
	Self() Member
	// View is who is there now, as far as this node knows; it costs no call.
	View() *View
	// Changed is closed when View has something new to say; numbers of clients and how
	// members receive hints are nothing new. To miss nothing, ask for it before View.
	Changed() <-chan struct{}
	// Heard is when View was last known to be true, also where it did not change: a
	// node that cannot reach the shared store, or none of the others, goes by what it
	// heard then, and must not refuse or send away clients on account of that.
	Heard() time.Time
	// Answered reports whether View was known to be true at any time since this node
	// started: before that it holds what the configuration says.
	Answered() bool
	// Missing are nodes that the configuration names and that do not answer: they are
	// not in View. There are none where nodes find one another.
	Missing() []Missing
	// Left reports whether a member, which may be in no view any more, said that it would
	// end before it did.
	Left(Member) bool
	// Enter announces this node to the others, which may then connect with it: call it
	// when it is reachable. Nobody sees the node before. It does not wait.
	Enter()
	// Announce tells the others of this node. It does not wait for them to hear it.
	Announce(Status)
	// Leave tells them that this node owns nothing any more, as if by Announce with
	// Draining, and waits until that is said, or ctx is over.
	Leave(ctx context.Context) error
	// Close ends the membership: with Leave before it, the others see it at once.
	Close()
}
