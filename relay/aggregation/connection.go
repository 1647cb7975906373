package aggregation

import (
	"time"

	"google.golang.org/grpc/credentials"
)

// Connection is what a listener knows of a client's connection: the AuthInfo that
// gRPC hands to those who serve it. It is not changed once made.
type Connection struct {
	// Listener is the name of the listener that the client came in by.
	Listener string
	// TLS is what the handshake showed; nil for plaintext.
	TLS *credentials.TLSInfo
	// Recheck tells whether the certificate that the client has shown would be taken
	// now: it may have expired, or its authority may be trusted no more. Nil where the
	// client has shown none. Safe for concurrent use.
	Recheck func() error
}

// AuthType is that of the handshake.
func (c *Connection) AuthType() string {
	if c.TLS == nil {
		return "insecure"
	}
	return c.TLS.AuthType()
}

// StillTrusted tells whether the certificate behind an AuthInfo would be taken now. A
// connection without one has nothing that could be withdrawn, so it always is.
func StillTrusted(auth credentials.AuthInfo) error {
	if c, ok := auth.(*Connection); ok && c != nil && c.Recheck != nil {
		return c.Recheck()
	}
	return nil
}

// Expires is when the certificate behind an AuthInfo ends; zero where there is none
// that was verified.
func Expires(auth credentials.AuthInfo) time.Time {
	if c, ok := auth.(*Connection); ok && c != nil {
		auth = c.TLS
	}
	if cert := verifiedLeaf(auth); cert != nil {
		return cert.NotAfter
	}
	return time.Time{}
}
