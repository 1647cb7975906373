package fanout

import (
	"sync"
	"sync/atomic"

	"xdsrelay/fanout/bodycache"
	"xdsrelay/fanout/sharedgzip"
	"xdsrelay/relay/resource"
)

// Compression says which responses are compressed for clients that accept gzip. The zero value
// means none. Secrets and responses for one client alone are never compressed.
type Compression struct {
	// From is the minimum size of a compressed response, in bytes; below 1 means never.
	From int
	// After is how many clients are sent a body uncompressed before it is compressed for further
	// ones: compression pays only after some clients, and most bodies may have fewer. 0 means that
	// it is compressed for the first client.
	After int
}

// packing is the compressed form of a cached body. It is made once that pays. It is safe for
// concurrent use.
type packing struct {
	// Fixed after construction.
	key  bodyKey
	slot *bodycache.Slot[body]

	wanted atomic.Int64 // how often a client that accepts gzip needed the body
	once   sync.Once
	made   *sharedgzip.Member // set by once; nil if it saves too little
}

// worth: compression must save at least one in worth of the bytes, since clients have to
// decompress.
const worth = 8

// packingOf returns the packing of a body of a type; nil if the body must not be compressed.
func (s *Server) packingOf(t *resource.Type, b *body, k bodyKey, slot *bodycache.Slot[body]) *packing {
	if from := s.cfg.Compression.From; from < 1 || len(b.data) < from || resource.HoldsSecrets(t.URL) {
		return nil
	}
	return &packing{key: k, slot: slot}
}

// packedFor returns the compressed form of a body for one more client that accepts gzip; nil if the
// client gets the body uncompressed. Concurrent callers wait for the one that compresses.
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

// compress replaces the content of f, a frame with the body b, by its compressed form if there is
// one and the client accepts it. It returns how many bytes that saves.
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
