package tierhead

import (
	"slices"
	"time"

	"xdsrelay/relay/resource"
)

// Head is the tier head of a type: what the tier agrees is its newest content.
type Head struct {
	// Digest identifies the content.
	Digest resource.Digest
	// Version is the one that SotW clients of the wildcard get for it on some node.
	Version string
	// Own says that this node has written it for its own content: it may have more by now, never
	// less.
	Own bool
	// At is when the owner of the key wrote it, by the owner's clock.
	At time.Time
	// Trace is the trace context of the update that made it, as W3C's traceparent; empty if that is
	// unknown or not traced.
	Trace string
}

// VersionsKept is how many versions of heads that the content has not reached are remembered.
const VersionsKept = 4

// pastKept is how many former digests are remembered: if the table is newer than the head, it had the
// head's content a moment ago.
const pastKept = 16

// Standing is how the content compares with the head. All from Behind on are behind, each with a
// stronger proof than the one before.
type Standing uint8

// The standings.
const (
	NoHead Standing = iota // there is no head to compare with
	Own                    // the head is this node's own
	At                     // the content is that of the head
	Ahead                  // the head is about what the content was before
	// Behind: the head is about other content, which counts as newer. It may be older: the first head
	// that content is compared with may be old, and one that arrived before the content may be older
	// than that. If the owner of the key cannot write to Redis, the head there stays.
	Behind
	// Overtaken: the head replaced another one while the content was the present one, so it is certain to
	// be newer.
	Overtaken
	// Left: the content was that of the head before, so this head is about what it has become.
	Left
)

// Behind reports whether the head is about content that counts as newer.
func (s Standing) Behind() bool { return s >= Behind }

// Comparison compares content with the tier head. The zero value has neither. A nil Comparison, of a
// table that is compared with none, has no head at all times; Observe and Content must not be called on
// it. One goroutine changes a Comparison at a time, while no other one reads it.
type Comparison struct {
	head     Head
	since    time.Time // when this head arrived; zero: there is none
	standing Standing

	now   resource.Digest // of the present content
	empty bool            // the content is known to be empty: before its first answer it is so, too
	past  []resource.Digest
	// reached says that the digest has been that of a head while the content was the present one:
	// then other heads are newer.
	reached bool
	// later says that the head replaced another one while the content was the present one.
	later bool
	// versions are those of the heads since one was reached, newest last.
	versions []string
}

// Observe takes a head that arrived at now, and reports whether it says anything new.
func (c *Comparison) Observe(head Head, now time.Time) (news bool) {
	if again := c.head; !c.since.IsZero() {
		c.head.At = head.At // another owner may have written the same head since
		if again.At = head.At; again == head {
			return false
		}
	}
	if c.since.IsZero() || c.head.Digest != head.Digest {
		c.since, c.later = now, !c.since.IsZero()
	}
	c.head = head
	c.versions = pushed(c.versions, head.Version, VersionsKept)
	c.compare()
	return true
}

// Content takes the digest of the content after a change, and reports whether that is another one.
// complete says that content without resources is known to be empty.
func (c *Comparison) Content(now resource.Digest, complete bool) (news bool) {
	was := c.empty
	c.empty = now == (resource.Digest{}) && complete
	if now == c.now {
		return false
	}
	if was || c.now != (resource.Digest{}) {
		c.past = pushed(c.past, c.now, pastKept)
	}
	c.now, c.reached, c.later = now, false, false
	c.compare()
	return true
}

// pushed adds an element to the newest ones, of which most are kept.
func pushed[T any](all []T, one T, most int) []T {
	if len(all) == most {
		all = slices.Delete(all, 0, 1)
	}
	return append(all, one)
}

func (c *Comparison) compare() {
	at := !c.since.IsZero() && c.now == c.head.Digest
	c.reached = c.reached || at
	switch {
	case c.since.IsZero():
		c.standing = NoHead
	case c.head.Own:
		c.standing = Own
	case at:
		c.standing = At
	case c.reached:
		c.standing = Left
	case slices.Contains(c.past, c.head.Digest):
		c.standing = Ahead
	case c.later:
		c.standing = Overtaken
	default:
		c.standing = Behind
	}
	if c.standing == Own || c.standing == At {
		c.versions = c.versions[:0]
	}
}

// Standing returns how the content compares with the head.
func (c *Comparison) Standing() Standing {
	if c == nil {
		return NoHead
	}
	return c.standing
}

// Head returns the head; known is false if there is none.
func (c *Comparison) Head() (head Head, known bool) {
	if c == nil {
		return head, false
	}
	return c.head, !c.since.IsZero()
}

// Reached reports whether the content is that of the head, which may be this node's own.
func (c *Comparison) Reached() bool {
	return c != nil && !c.since.IsZero() && c.now == c.head.Digest
}

// Now is the digest of the content that is compared.
func (c *Comparison) Now() (none resource.Digest) {
	if c == nil {
		return none
	}
	return c.now
}

// Since is when a head with the digest of the present one arrived first, by this node's clock; zero
// if there is none.
func (c *Comparison) Since() (none time.Time) {
	if c == nil {
		return none
	}
	return c.since
}

// Written is when the head was written, at the latest, if the content is that of the head; otherwise
// zero.
func (c *Comparison) Written() time.Time {
	switch {
	case !c.Reached():
		return time.Time{}
	case c.head.At.After(c.since):
		return c.since // the clock of the owner is ahead
	}
	return c.head.At
}

// Awaits reports whether a version is that of a head which the content has not reached.
func (c *Comparison) Awaits(version string) bool {
	return c.Standing().Behind() && slices.Contains(c.versions, version)
}
