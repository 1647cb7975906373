// Package gate has what the control plane of one stream has sent and clients do not see yet, for one
// type, as a pure value: it takes no lock, reads no clock, and starts no goroutine. Package cache puts
// it under the lock of a table, and decides what passes.
//
// What clients see is stable. What the control plane has sent and stable lacks is pending. So what the
// control plane has sent is always stable with the pending names replaced. A pending change that
// equals stable does not exist: it ends by itself when the control plane returns to that.
package gate

import (
	"fmt"
	"iter"
	"maps"

	"xdsrelay/relay/resource"
)

// State says what a key's gates do with changes.
type State uint8

// The states.
const (
	// Open: everything passes, and there is no gate.
	Open State = iota
	// Frozen: an operator wants nothing to change.
	Frozen
	// Undone: an operator has undone a revision. Nothing changes until the control plane sends
	// something else instead of what was undone.
	Undone
	// Governed: changes are held back until a rollout releases them.
	Governed
	// Observed: everything passes as with Open, and a policy decides what it would have done.
	Observed
)

var stateNames = [...]string{Open: "open", Frozen: "frozen", Undone: "undone", Governed: "staged", Observed: "observed"}

func (s State) String() string { return stateNames[s] }

// Change is a pending change of one name.
type Change struct {
	Sent   *resource.Resource // by the control plane; nil: it has none
	Stable *resource.Resource // what clients see of the stream; nil: none
}

// Gate has the pending changes of one stream and type. The zero value has none. One goroutine changes it at
// a time, while no other one reads it.
type Gate struct {
	pending map[string]Change
	// refused is what was undone, by name: digests as [Digest] returns them.
	refused map[string]resource.Digest

	live   int             // resources that were sent, less those of stable, among the pending names
	digest resource.Digest // the same for the digests
	bytes  int64           // of what was sent
	edits  uint64
}

// Len returns the number of pending names.
func (g *Gate) Len() int { return len(g.pending) }

// Bytes estimates the memory of what is pending.
func (g *Gate) Bytes() int64 { return g.bytes }

// Edits counts the changes of what is pending.
func (g *Gate) Edits() uint64 { return g.edits }

// Digest identifies all that is pending.
func (g *Gate) Digest() resource.Digest { return g.digest }

// Get returns the pending change of a name.
func (g *Gate) Get(name string) (c Change, pending bool) {
	c, pending = g.pending[name]
	return c, pending
}

// All iterates over the pending changes, in no order. Changes may end meanwhile.
func (g *Gate) All() iter.Seq2[string, Change] { return maps.All(g.pending) }

// Sent returns the number of resources that were sent, and the digest of them, from those of stable.
func (g *Gate) Sent(live int, digest resource.Digest) (int, resource.Digest) {
	return live + g.live, digest.Add(g.digest)
}

// Hold records what the control plane has sent for a name, nil for none, where clients see stable.
func (g *Gate) Hold(name string, sent, stable *resource.Resource) {
	if same(sent, stable) {
		g.End(name)
		return
	}
	if was, pending := g.pending[name]; pending {
		g.count(name, was, -1)
		if same(was.Sent, sent) && same(was.Stable, stable) {
			g.edits-- // another version of the same content
		}
	}
	g.edits++
	if g.pending == nil {
		g.pending = make(map[string]Change)
	}
	c := Change{sent, stable}
	g.pending[name] = c
	g.count(name, c, 1)
}

// End ends the pending change of a name: clients see what the control plane has sent, or nobody asks
// for it any more.
func (g *Gate) End(name string) {
	if c, pending := g.pending[name]; pending {
		delete(g.pending, name)
		g.count(name, c, -1)
		g.edits++
	}
}

// Rebase records that clients see something else of a name.
func (g *Gate) Rebase(name string, stable *resource.Resource) {
	if c, pending := g.pending[name]; pending {
		g.Hold(name, c.Sent, stable)
	}
}

// Digest identifies a resource of one name, nil for none.
func Digest(r *resource.Resource) (d resource.Digest) {
	if r != nil {
		d = r.Member()
	}
	return d
}

// Refuse records that what the control plane has sent for a name was undone.
func (g *Gate) Refuse(name string, sent resource.Digest) {
	if g.refused == nil {
		g.refused = make(map[string]resource.Digest)
	}
	g.refused[name] = sent
}

// Refused iterates over what was undone.
func (g *Gate) Refused() iter.Seq2[string, resource.Digest] { return maps.All(g.refused) }

// Differs reports whether the control plane has sent something else instead of what was undone: for
// any of the names that it still has to answer for, as known says.
func (g *Gate) Differs(known func(name string) bool) bool {
	for name, sent := range g.refused {
		if c, pending := g.pending[name]; (!pending || Digest(c.Sent) != sent) && known(name) {
			return true
		}
	}
	return false
}

func same(a, b *resource.Resource) bool {
	return a == b || a != nil && b != nil && a.SameContent(b)
}

// changeSize is the memory of a pending change besides its resource and the name.
const changeSize = 80

func (g *Gate) count(name string, c Change, sign int) {
	in, out := c.Sent, c.Stable
	if sign < 0 {
		in, out = out, in
	}
	if in != nil {
		g.live, g.digest = g.live+1, g.digest.Add(in.Member())
	}
	if out != nil {
		g.live, g.digest = g.live-1, g.digest.Sub(out.Member())
	}
	n := int64(changeSize + len(name))
	if c.Sent != nil {
		n += int64(c.Sent.Size())
	}
	g.bytes += int64(sign) * n
}

// Check recomputes from scratch what the gate maintains incrementally. It returns a sentence for each
// difference.
func (g *Gate) Check() (wrong []string) {
	var now Gate
	for name, c := range g.pending {
		if same(c.Sent, c.Stable) {
			wrong = append(wrong, fmt.Sprintf("the pending change of %q changes nothing", name))
		}
		now.count(name, c, 1)
	}
	if now.live != g.live || now.digest != g.digest || now.bytes != g.bytes {
		wrong = append(wrong, fmt.Sprintf("pending: %d resources, %s, %d bytes; recomputed: %d, %s, %d", g.live, g.digest.Hex(), g.bytes, now.live, now.digest.Hex(), now.bytes))
	}
	return wrong
}
