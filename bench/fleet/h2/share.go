package h2

import (
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// Thousands of clients that are in the middle of the same large message hold
// one copy of it together. A client's part is where in it the client is, and,
// once the client is told something else than those before it, what that is.
const (
	// shareFrom is the size from which messages are shared.
	shareFrom = 16 << 10
	// shareKey is how many bytes at the beginning tell messages apart that have
	// nothing in common.
	shareKey = 256
	// ownLimit is how much of its own a client holds before that is shared, too.
	// What differs per client, like a nonce, is shorter.
	ownLimit = 4 << 10
	// shareLimit bounds what is kept for further clients, in bytes. Beyond it
	// everything is forgotten; clients in the middle of something keep that.
	shareLimit = 64 << 20
	// deepest is after how many forks a message is laid out anew.
	deepest = 8
)

// share is the messages that the connections of a dialer are in the middle of.
type share struct {
	mu    sync.Mutex
	roots map[uint64]*Chain // guarded by mu; by the hash of how they begin
	size  atomic.Int64      // of the chains that can be reached from roots
}

// Chain is a part of one or more messages, which grows as any client is told
// more. Chains form a tree: where messages differ, another chain begins.
type Chain struct {
	// Fixed after construction.
	share *share
	key   uint64 // of the root
	from  *Chain // what comes before; nil at the beginning of a message
	base  int    // how many bytes come before
	depth int

	// Known is for the receiver, to note what it knows of messages that go
	// through here. It holds one type.
	Known atomic.Value

	mu    sync.Mutex
	bytes []byte         // guarded by mu; only ever appended to
	forks map[int]*Chain // guarded by mu; by where in a message they begin
}

// root returns the chain for messages that begin like b, and makes it if there
// is none.
func (s *share) root(b []byte, room int) *Chain {
	key := xxhash.Sum64(b[:shareKey])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roots == nil || s.size.Load() > shareLimit {
		s.roots = make(map[uint64]*Chain)
		s.size.Store(0)
	}
	if s.roots[key] == nil {
		s.roots[key] = &Chain{share: s, key: key, bytes: make([]byte, 0, room)}
	}
	return s.roots[key]
}

// lay lays a message out anew, for those that begin like it.
func (s *share) lay(key uint64, whole []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roots != nil {
		s.roots[key] = &Chain{share: s, key: key, bytes: whole}
		s.size.Add(int64(len(whole)))
	}
}

// after is what is known to follow at an offset of a message.
func (c *Chain) after(at int) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes[at-c.base:]
}

// grow adds what follows at an offset, unless somebody else did.
func (c *Chain) grow(at int, b []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bytes) != at-c.base {
		return false
	}
	c.bytes = append(c.bytes, b...)
	c.share.size.Add(int64(len(b)))
	return true
}

// fork returns the chain that leaves c at an offset, and makes it if there is
// none.
func (c *Chain) fork(at, room int) *Chain {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.forks[at]
	if f == nil {
		f = &Chain{share: c.share, key: c.key, from: c, base: at, depth: c.depth + 1, bytes: make([]byte, 0, room)}
		if c.forks == nil {
			c.forks = make(map[int]*Chain)
		}
		c.forks[at] = f
	}
	return f
}

// partial is a message that is being received.
type partial struct {
	chain *Chain  // nil as long as nothing is shared
	at    int     // how much of the message is in chains
	own   *[]byte // what follows; nil for nothing
}

// size is how much of the message is there.
func (p *partial) size() int {
	if p.own == nil {
		return p.at
	}
	return p.at + len(*p.own)
}

// add adds a piece of a message that has a size in all.
func (p *partial) add(s *share, b []byte, whole int) {
	for len(b) > 0 {
		switch {
		case whole < shareFrom:
			p.keep(b, whole)
			return
		case p.chain == nil && p.own == nil && len(b) >= shareKey:
			p.chain = s.root(b, whole)
			p.follow(b, whole)
			return
		case p.chain == nil && p.size() < shareKey:
			n := min(shareKey-p.size(), len(b))
			p.keep(b[:n], shareKey)
			b = b[n:]
		case p.chain != nil && p.own == nil:
			p.follow(b, whole)
			return
		case p.chain != nil && len(*p.own)+len(b) <= ownLimit:
			p.keep(b, ownLimit)
			return
		default: // there is enough to be shared
			own := p.own
			if p.own = nil; p.chain == nil {
				p.chain = s.root(*own, whole)
			} else {
				p.chain = p.chain.fork(p.at, whole-p.at)
			}
			p.follow(*own, whole)
			giveBuffer(own)
		}
	}
}

// keep adds to what is the client's own.
func (p *partial) keep(b []byte, room int) {
	if p.own == nil {
		p.own = takeBuffer(room)
	}
	*p.own = append(*p.own, b...)
}

// follow goes along the chain as far as it says what b says.
func (p *partial) follow(b []byte, whole int) {
	for len(b) > 0 {
		known := p.chain.after(p.at)
		n := same(known, b)
		p.at += n
		b = b[n:]
		switch {
		case len(b) == 0:
		case n < len(known) && len(b) > ownLimit:
			p.chain = p.chain.fork(p.at, whole-p.at)
		case n < len(known):
			p.keep(b, ownLimit)
			return
		case p.chain.grow(p.at, b):
			p.at += len(b)
			return
		}
	}
}

// same is how many bytes two slices have in common at their beginning.
func same(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	// By blocks, which the runtime compares fast.
	for ; n-i >= 512 && string(a[i:i+512]) == string(b[i:i+512]); i += 512 {
		continue
	}
	for ; i < n && a[i] == b[i]; i++ {
		continue
	}
	return i
}

// drop lets go of the message.
func (p *partial) drop() {
	if p.own != nil {
		giveBuffer(p.own)
	}
	*p = partial{}
}

// Message is a message as a receiver gets it: a beginning that it may have in
// common with the messages of other clients, and the rest.
type Message struct {
	// Chain is where the common part ends; nil if there is none.
	Chain *Chain
	// Shared is how long the common part is.
	Shared int
	// Own is what follows, valid until the receiver returns.
	Own []byte
}

// Len is the message's length.
func (m *Message) Len() int { return m.Shared + len(m.Own) }

// AppendFrom appends what there is from an offset on.
func (m *Message) AppendFrom(b []byte, at int) []byte {
	if at >= m.Shared {
		return append(b, m.Own[at-m.Shared:]...)
	}
	return append(m.Chain.appendTo(b, at, m.Shared), m.Own...)
}

// appendTo appends the bytes of a message from an offset to another, which is
// beyond the chain's beginning.
func (c *Chain) appendTo(b []byte, at, to int) []byte {
	if at < c.base {
		b = c.from.appendTo(b, at, c.base)
		at = c.base
	}
	return append(b, c.after(at)[:to-at]...)
}

// whole returns all of a message in one piece, and a buffer to be given back
// that may be nil.
func (m *Message) whole() ([]byte, *[]byte) {
	if m.Chain == nil {
		return m.Own, nil
	}
	b := takeBuffer(m.Len())
	*b = m.AppendFrom(*b, 0)
	return *b, b
}
