package fanout

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout/sharedgzip"
	"xdsrelay/fanout/transport"
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
	at *place // fixed after construction

	wanted atomic.Int64 // how often a client that accepts gzip needed the body
	once   sync.Once
	made   *sharedgzip.Member // set by once; nil if it saves too little
}

// worth: compression must save at least one in worth of the bytes, since clients have to
// decompress.
const worth = 8

// packingOf returns the packing of a body of a type; nil if the body must not be compressed.
func (s *Server) packingOf(t *resource.Type, b *body, at *place) *packing {
	if from := s.cfg.Compression.From; from < 1 || len(b.data) < from || resource.HoldsSecrets(t.URL) {
		return nil
	}
	return &packing{at: at}
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
		s.bodies.Grow(p.at.key, p.at.slot, int64(cap(m.Head())))
	})
	return p.made
}

// acceptsGzip reports whether a client accepts compressed responses, and announces them. It must be
// called before anything is sent.
func (s *stream) acceptsGzip(node *corev3.Node) bool {
	return s.srv.cfg.Compression.From > 0 && !s.misclaims(node) && s.call.Compress()
}

// misclaims reports whether a client cannot decompress although it says so. The gRPC client of
// Envoy's own cannot, but its configuration may add the header, which most control planes ignore.
// Envoy's other client is a gRPC library and names it.
func (s *stream) misclaims(node *corev3.Node) bool {
	library := func(agent string) bool { return strings.Contains(agent, "grpc-") }
	return node.GetUserAgentName() == "envoy" && !slices.ContainsFunc(s.call.Header("user-agent"), library)
}

// compress replaces the content of m, a message with the body b, by its compressed form if there is
// one and the client accepts it. It returns how many bytes that saves.
func (s *stream) compress(m *transport.Message, b *body) (saved int) {
	if !s.gzip {
		return 0
	}
	packed := s.srv.packedFor(b)
	if packed == nil {
		return 0
	}
	plain := m.Size()
	m.Body, m.Tail = packed.Head(), packed.AppendTail(make([]byte, 0, len(m.Tail)+sharedgzip.Overhead), m.Tail)
	m.Compressed = true
	return plain - m.Size()
}
