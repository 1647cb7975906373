package fanout

import (
	"sync"
	"sync/atomic"

	"xdsrelay/fanout/bodycache"
	"xdsrelay/fanout/sharedgzip"
	"xdsrelay/relay/resource"
)

// Compression says which responses are sent compressed to clients that take
// gzip. The zero value means none. Secrets and what is made for one client alone
// never are.
type Compression struct {
	// From is the size in bytes from which a response is compressed; below 1 means
	// never.
	From int
	// After is how many clients get a body as it is before it is compressed for
	// those that follow: deflating it costs as much as it saves with some clients,
	// and most bodies may have fewer. 0 means that it is compressed for the first.
	After int
}

// packing is the compressed form of a body that is kept for sharing. It is made
// when that begins to pay. It is safe for concurrent use.
type packing struct {
	// Fixed after construction.
	key  bodyKey
	slot *bodycache.Slot[body]

	wanted atomic.Int64 // how often a client that takes gzip was to be sent the body
	once   sync.Once
	made   *sharedgzip.Member // set by once; nil if it would save too little
}

// worth is the share of a body that has to be saved, as a divisor of its size:
// clients have to inflate it.
const worth = 8

// packingOf returns where the compressed form of a body of a type will be, nil if
// it is not to have one.
func (s *Server) packingOf(t *resource.Type, b *body, k bodyKey, slot *bodycache.Slot[body]) *packing {
	if from := s.cfg.Compression.From; from < 1 || len(b.data) < from || resource.HoldsSecrets(t.URL) {
		return nil
	}
	return &packing{key: k, slot: slot}
}

// packedFor returns the compressed form of a body for one more client that takes
// gzip; nil if it gets it as it is. Concurrent callers wait for the one that makes
// the form.
func (s *Server) packedFor(b *body) *sharedgzip.Member {
	p := b.packing
	if p == nil || p.wanted.Add(1) <= int64(s.cfg.Compression.After) {
		return nil
	}
	p.once.Do(func() {
		m := s.compressor.Compress(b.data)
		s.packed.Add(1)
		if len(m.Head()) > len(b.data)-len(b.data)/worth {
			return
		}
		p.made = m
		s.bodies.Grow(p.key, p.slot, int64(cap(m.Head())))
	})
	return p.made
}

// compress makes f, a frame with the body b, the same in its compressed form, if
// it has one and the client takes it. It returns how many bytes that saves.
func (s *stream) compress(f *frame, b *body) (saved int) {
	if s.wire == nil {
		return 0
	}
	m := s.srv.packedFor(b)
	if m == nil {
		return 0
	}
	plain := f.size()
	f.body, f.tail = m.Head(), m.AppendTail(make([]byte, 0, len(f.tail)+sharedgzip.Overhead), f.tail)
	f.compressed = true
	return plain - f.size()
}
