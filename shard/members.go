package shard

import (
	"context"
	"time"
)

// Missing is a configured node that does not answer.
type Missing struct {
	Member Member
	// Heard is when it last answered, or when this node began to probe it if it never has; Err is
	// why it does not answer.
	Heard time.Time
	Err   error
}

// LeaveTime is what a node has for [Members.Leave] when it drains.
const LeaveTime = 2 * time.Second

// Members are the nodes of the tier. There are three implementations: [Solo], a single node,
// [Static], a list, and package shard/lease, in Redis. All methods are safe for concurrent use.
type Members interface {
	// Self returns this node.
	Self() Member
	// View returns the present members, as far as this node knows; it makes no call.
	View() *View
	// Changed returns a channel that is closed when View changes. Numbers of clients, and how
	// members receive hints, are not changes. To miss no change, call it before View.
	Changed() <-chan struct{}
	// Heard returns when View was last known to be correct, also if it did not change. A node that
	// cannot reach the shared store, or none of the other nodes, uses that last view, and must not
	// refuse or disconnect clients because of that.
	Heard() time.Time
	// Answered reports whether View was known to be correct at any time since this node started:
	// before that it is what the configuration says.
	Answered() bool
	// Missing returns configured nodes that do not answer: they are not in View. There are none if
	// nodes discover each other.
	Missing() []Missing
	// Left reports whether a member, which may be in no view any more, announced its end.
	Left(Member) bool
	// Enter announces this node to the others, which may then connect to it: call it when the node
	// is reachable. It is invisible to others before. It does not wait.
	Enter()
	// Announce sends the status of this node to the others. It does not wait for them.
	Announce(Status)
	// Leave announces that this node owns nothing any more, like Announce with Draining. It waits
	// until that is sent, or ctx ends.
	Leave(ctx context.Context) error
	// Close ends the membership. After Leave the others see it at once.
	Close()
}
