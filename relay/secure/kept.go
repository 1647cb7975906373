package secure

import (
	"context"
	"crypto/x509"
	"math"
	"net"
	"net/http"
	"sync"
)

// keptKey is where the context of an HTTP connection has its *kept.
type keptKey struct{}

// kept is what is known of the client of one HTTP connection.
type kept struct {
	server *Server // fixed

	once    sync.Once
	recheck func() error // set once; nil for a client without a certificate
}

// Keep is the ConnContext of an HTTP server, whose connections may be kept for long:
// it is what [StillTrusted] needs of each.
func (s *Server) Keep(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, keptKey{}, &kept{server: s})
}

// StillTrusted tells whether the certificate of the connection that a request came by
// would be taken now; it is nil for one without. Certificates are verified for the
// first request, since authorities may have changed after the handshake, and then when
// they have changed. It costs a look at the files.
func StillTrusted(r *http.Request) error {
	k, ok := r.Context().Value(keptKey{}).(*kept)
	if !ok {
		return nil
	}
	k.once.Do(func() {
		var chains [][]*x509.Certificate
		if r.TLS != nil {
			chains = r.TLS.VerifiedChains
		}
		k.recheck = k.server.recheck(unverified, chains)
	})
	if k.recheck == nil {
		return nil
	}
	return k.recheck()
}

// unverified is the generation of what was not verified yet.
const unverified = math.MaxUint64
