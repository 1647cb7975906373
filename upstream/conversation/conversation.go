package conversation

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Conversation is what a stream knows about one type. The caller guards it. The zero value is that of
// a new stream.
type Conversation struct {
	State
	// Fixed after construction.
	Type    *resource.Type
	Variant Variant

	// Names is the list of the last request (SotW).
	Names []string
	// lastNames are the names of the last reply, without the wildcard. unsubscribed are those that a
	// later request dropped, by canonical name (SotW, B8).
	lastNames    []string
	unsubscribed map[string]staleUnsubscribe

	// Nonce is the newest one (C2).
	Nonce string
	// nacks counts NACKs since the last accepted response. repeats counts how often the response at
	// version, received at lastAt, was repeated without any change.
	nacks, repeats int
	version        string
	lastAt         time.Time
}

func (c *Conversation) apply(e Event) Effect { return c.step(c.Variant, e) }

// LargeFrame records that a frame was received that others of the same answer may follow.
func (c *Conversation) LargeFrame() { c.apply(LargeFrame) }

// FramesEnd records that no other frame has followed.
func (c *Conversation) FramesEnd() { c.apply(FramesEnd) }

// Accept records that a response is valid, and made so many changes. It returns how long to delay the
// ACK.
func (c *Conversation) Accept(rsp *resource.Response, changes int, now time.Time) time.Duration {
	c.Nonce = rsp.Nonce
	if c.apply(Valid)&Accept != 0 {
		c.nacks = 0
	}
	return c.repeated(rsp, changes, now)
}

// Reject records that a response has resources that cannot be used. It returns how long to delay the
// NACK.
func (c *Conversation) Reject(rsp *resource.Response) time.Duration {
	c.Nonce = rsp.Nonce
	delay := replyDelay(c.nacks)
	if c.apply(Invalid)&Reject != 0 {
		c.nacks++
	}
	return delay
}

// Defer records that a response is valid, and that canaries get what it changes before the reply.
func (c *Conversation) Defer(rsp *resource.Response, now time.Time) {
	c.Nonce = rsp.Nonce
	c.apply(Gated)
	c.repeated(rsp, 1, now)
}

// Pass ends the wait of a reply: it is an ACK.
func (c *Conversation) Pass() {
	if c.apply(Passed)&Accept != 0 {
		c.nacks = 0
	}
}

// Fail records that canaries have rejected the newest response, unless it has a NACK or was reported. It
// reports whether that takes one more request: the reply was sent. Otherwise it is a NACK now.
func (c *Conversation) Fail() (report bool) {
	if c.Reply != Deferred && c.Reply != Acked {
		return false
	}
	effect := c.apply(Failed)
	if effect&Reject != 0 {
		c.nacks++
	}
	return effect&Report != 0
}

// Replied records that the reply is sent, without some names. It returns the names that it has
// (SotW).
func (c *Conversation) Replied(omit []string) []string {
	c.apply(Replied)
	names := c.Names
	if len(omit) > 0 {
		names = Without(names, omit)
	}
	c.lastNames = plain(names)
	return names
}

const (
	// MaxDelay is the longest delay of a reply. A reply within a second still counts as prompt (C3).
	MaxDelay = 900 * time.Millisecond
	// MinHeartbeat is the shortest interval between heartbeats of a well-behaved control plane.
	MinHeartbeat = 100 * time.Millisecond
)

// replyDelay returns how long to delay a reply after n replies to the same response in a row. Some
// servers immediately send a rejected or unchanged response again, which would keep both sides busy
// indefinitely.
func replyDelay(n int) time.Duration {
	if n == 0 {
		return 0
	}
	return min(50*time.Millisecond<<min(n, 4), MaxDelay)
}

// repeated returns how long to delay the ACK of a response that changed so many resources. Some
// servers answer some ACKs with the same response again.
func (c *Conversation) repeated(rsp *resource.Response, changes int, now time.Time) time.Duration {
	since := now.Sub(c.lastAt)
	again := changes == 0 && rsp.Version == c.version && since < 2*MaxDelay
	if again && since >= MinHeartbeat {
		// A TTL is meant to be refreshed periodically (F4).
		again = !slices.ContainsFunc(rsp.Resources, func(r *resource.Resource) bool { return r.TTL > 0 })
	}
	c.version, c.lastAt = rsp.Version, now
	if !again {
		c.repeats = 0
		return 0
	}
	c.repeats++
	return replyDelay(max(0, c.repeats-3)) // names that were subscribed again may cause a few repeats
}
