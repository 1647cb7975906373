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

// Gate has the pending changes of one stream and type. The zero value has none, and takes little memory until
// something is pending. One goroutine changes it at a time, while no other one reads it.
type Gate struct {
	held *held // nil: nothing was ever pending or undone
}

// held is what a gate holds back.
type held struct {
	pending map[string]Change
	// refused is what was undone, by name: digests as [Digest] returns them.
	refused map[string]resource.Digest

	live   int             // resources that were sent, less those of stable, among the pending names
	digest resource.Digest // the same for the digests
	bytes  int64           // of what was sent
	edits  uint64
}

// none is what a gate holds back of which nothing was ever pending. It is never changed.
var none held

func (g *Gate) has() *held {
	if g.held == nil {
		return &none
	}
	return g.held
}

func (g *Gate) changes() *held {
	if g.held == nil {
		g.held = new(held)
	}
	return g.held
}

// Len returns the number of pending names.
func (g *Gate) Len() int { return len(g.has().pending) }

// Bytes estimates the memory of what is pending.
func (g *Gate) Bytes() int64 { return g.has().bytes }

// Edits counts the changes of what is pending.
func (g *Gate) Edits() uint64 { return g.has().edits }

// Digest identifies all that is pending.
func (g *Gate) Digest() resource.Digest { return g.has().digest }

// Get returns the pending change of a name.
func (g *Gate) Get(name string) (c Change, pending bool) {
	c, pending = g.has().pending[name]
	return c, pending
}

// All iterates over the pending changes, in no order. Changes may end meanwhile.
func (g *Gate) All() iter.Seq2[string, Change] { return maps.All(g.has().pending) }

// Sent returns the number of resources that were sent, and the digest of them, from those of stable.
func (g *Gate) Sent(live int, digest resource.Digest) (int, resource.Digest) {
	h := g.has()
	return live + h.live, digest.Add(h.digest)
}

// Hold records what the control plane has sent for a name, nil for none, where clients see stable.
func (g *Gate) Hold(name string, sent, stable *resource.Resource) {
	if same(sent, stable) {
		g.End(name)
		return
	}
	h := g.changes()
	if was, pending := h.pending[name]; pending {
		h.count(name, was, -1)
		if same(was.Sent, sent) && same(was.Stable, stable) {
			h.edits-- // another version of the same content
		}
	}
	h.edits++
	if h.pending == nil {
		h.pending = make(map[string]Change)
	}
	c := Change{sent, stable}
	h.pending[name] = c
	h.count(name, c, 1)
}

// End ends the pending change of a name: clients see what the control plane has sent, or nobody asks
// for it any more.
func (g *Gate) End(name string) {
	if c, pending := g.Get(name); pending {
		delete(g.held.pending, name)
		g.held.count(name, c, -1)
		g.held.edits++
	}
}

// Rebase records that clients see something else of a name.
func (g *Gate) Rebase(name string, stable *resource.Resource) {
	if c, pending := g.Get(name); pending {
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
	h := g.changes()
	if h.refused == nil {
		h.refused = make(map[string]resource.Digest)
	}
	h.refused[name] = sent
}

// Refused iterates over what was undone.
func (g *Gate) Refused() iter.Seq2[string, resource.Digest] { return maps.All(g.has().refused) }

// Differs reports whether the control plane has sent something else instead of what was undone: for
// any of the names that it still has to answer for, as known says.
func (g *Gate) Differs(known func(name string) bool) bool {
	for name, sent := range g.has().refused {
		if c, pending := g.Get(name); (!pending || Digest(c.Sent) != sent) && known(name) {
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

func (h *held) count(name string, c Change, sign int) {
	in, out := c.Sent, c.Stable
	if sign < 0 {
		in, out = out, in
	}
	if in != nil {
		h.live, h.digest = h.live+1, h.digest.Add(in.Member())
	}
	if out != nil {
		h.live, h.digest = h.live-1, h.digest.Sub(out.Member())
	}
	n := int64(changeSize + len(name))
	if c.Sent != nil {
		n += int64(c.Sent.Size())
	}
	h.bytes += int64(sign) * n
}

// Check recomputes from scratch what the gate maintains incrementally. It returns a sentence for each
// difference.
func (g *Gate) Check() (wrong []string) {
	var now held
	h := g.has()
	for name, c := range h.pending {
		if same(c.Sent, c.Stable) {
			wrong = append(wrong, fmt.Sprintf("the pending change of %q changes nothing", name))
		}
		now.count(name, c, 1)
	}
	if now.live != h.live || now.digest != h.digest || now.bytes != h.bytes {
		wrong = append(wrong, fmt.Sprintf("pending: %d resources, %s, %d bytes; recomputed: %d, %s, %d", h.live, h.digest.Hex(), h.bytes, now.live, now.digest.Hex(), now.bytes))
	}
	return wrong
}
