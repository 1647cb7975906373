package secure

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

const (
	// ticketKeyAge is how long new session tickets are encrypted with one key.
	ticketKeyAge = 24 * time.Hour
	// ticketKeys is how many keys are known: tickets are good for 7 days at most, as in
	// crypto/tls and RFC 8446 (section 4.6.1).
	ticketKeys = 7
)

// serving makes the TLS configuration for connections that speak one of some protocols. All of them
// share it until certificates, authorities or the keys of session tickets change.
type serving struct {
	// Fixed after construction.
	server *Server
	protos []string

	mu sync.Mutex
	// Guarded by mu.
	last *configured // nil before the first connection
}

// configured is the TLS configuration of some material. It is not changed once made.
type configured struct {
	of     *material
	config *tls.Config
	keys   [][32]byte // of session tickets, newest first
	renew  time.Time  // when a new key is due
}

// get looks at the files.
func (s *serving) get() *configured {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, now := s.server.source.get(), time.Now()
	if s.last == nil || s.last.of != m || !now.Before(s.last.renew) {
		s.last = s.makeLocked(m, now)
	}
	return s.last
}

// makeLocked makes the configuration for new connections.
//
// A ticket lets a client in by what it has shown before. It must let nobody in whom a full handshake
// would refuse:
//
//   - The keys are fresh for each generation of trust. A ticket of before an authority or a bundle
//     was changed cannot be decrypted, and the client does a full handshake. The keys are random and
//     in no other process, on no other port: so a ticket is good only where clients are asked for
//     the same.
//   - The library takes the certificates that the client has shown from the ticket, and ignores a
//     ticket whose chain has expired. VerifyConnection verifies them again with what is trusted now.
//
// The keys belong to the configuration in any case: without, the library would use those of the
// configuration that has GetConfigForClient, which are the same for all generations.
func (s *serving) makeLocked(m *material, now time.Time) *configured {
	c := &configured{of: m, renew: now.Add(ticketKeyAge)}
	last := s.last
	switch {
	case last == nil || last.of.generation != m.generation:
		c.keys = [][32]byte{newTicketKey()}
	case now.Before(last.renew):
		c.keys, c.renew = last.keys, last.renew
	default:
		c.keys = append([][32]byte{newTicketKey()}, last.keys[:min(len(last.keys), ticketKeys-1)]...)
	}
	c.config = s.server.config(m, s.protos)
	c.config.SetSessionTicketKeys(c.keys)
	return c
}

func newTicketKey() (key [32]byte) {
	_, _ = rand.Read(key[:]) // it never fails
	return key
}

// config is the configuration without keys of session tickets.
func (s *Server) config(m *material, protos []string) *tls.Config {
	c := &tls.Config{MinVersion: s.cfg.minVersion(), CipherSuites: suites(), NextProtos: protos, Certificates: m.certs, ClientAuth: s.asks,
		DynamicRecordSizingDisabled: true}
	if s.asks == tls.NoClientCert {
		return c
	}
	c.ClientCAs = m.pool
	// Also called for a connection that a ticket resumes.
	c.VerifyConnection = func(state tls.ConnectionState) error {
		switch {
		case len(state.PeerCertificates) == 0:
			return nil // where that is allowed
		case !state.DidResume && len(state.VerifiedChains) > 0 && !m.trust.spiffe:
			return m.trust.takes(state.PeerCertificates[0]) // the library has just verified the chain, with the same authorities
		}
		return m.trust.verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, time.Now())
	}
	return c
}
