package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// cause is why a handshake has failed.
type cause struct {
	word     string // of metrics
	sentence string // names the side; empty where there is nothing to say
}

// Why returns in a word why a handshake with a client has failed, for metrics, and in a
// sentence on which side that is and what the operator can do about it, empty where there
// is nothing to say.
func Why(err error) (word, hint string) {
	c := causeOf(err, "client", "server")
	return c.word, c.sentence
}

// alerts are those by which the other side rejects a certificate (RFC 8446, section 6.2),
// as the library writes them.
var alerts = []struct{ text, word, says string }{
	{"expired certificate", "expired", "has expired or is not valid yet"},
	{"revoked certificate", "certificate", "was revoked"},
	{"unknown certificate authority", "unknown_authority", "is from an authority that is unknown there"},
	{"certificate required", "no_certificate", "is required there, and none from an authority that is trusted there was sent"},
	{"unsupported certificate", "certificate", "is of a kind that is not supported there"},
	{"bad certificate", "certificate", "is not accepted there; check its names, use and authority"},
	{"unknown certificate", "certificate", "is not accepted there; check its names, use and authority"},
	{"access denied", "certificate", "is not accepted there"},
}

// causeOf works out why a handshake with the other side has failed, where this side is
// own: "client" or "server".
func causeOf(err error, other, own string) cause {
	var record tls.RecordHeaderError
	var network net.Error
	text := err.Error()
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	if _, alert, remote := strings.Cut(text, "remote error: tls: "); remote {
		for _, a := range alerts {
			if strings.HasPrefix(alert, a.text) {
				return cause{own + "_" + a.word, fmt.Sprintf("the %s rejected this side's %s certificate: it %s", other, own, a.says)}
			}
		}
	}
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return cause{"timeout", fmt.Sprintf("the %s did not finish the handshake in time", other)}
	case errors.As(err, &record):
		return cause{"plaintext", fmt.Sprintf("the %s does not use TLS", other)}
	case says("unsupported versions", "protocol version not supported"):
		if other == "server" {
			return cause{"version", `the server supports only an older version of TLS; allow it with tls.min_version: "1.2"`}
		}
		return cause{"version", `the client supports only an older version of TLS: raise its maximum version (Envoy: tls_maximum_protocol_version: TLSv1_3), or allow tls.min_version: "1.2"`}
	case says("application protocol", "ALPN"):
		return cause{"protocol", fmt.Sprintf("the %s does not offer HTTP/2 (ALPN h2)", other)}
	case says("didn't provide a certificate"):
		return cause{"no_certificate", fmt.Sprintf("the %s sent no certificate from an authority that is trusted here (tls.ca_file), and one is required", other)}
	}
	return verification(err, text, other)
}

// verification is the cause where the certificate of the other side was not accepted.
func verification(err error, text, other string) cause {
	var (
		failed    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
	)
	which := fmt.Sprintf("the %s certificate", other)
	switch {
	case errors.As(err, &authority), strings.Contains(text, "unknown authority"):
		return cause{"unknown_authority", which + " is from an authority that is not trusted here; add the authority to tls.ca_file, or use another certificate"}
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired, strings.Contains(text, "has expired"):
		return cause{"expired", which + " has expired or is not valid yet; renew it there, and check the clocks"}
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return cause{"certificate", which + " is not for this use; it needs the extended key usage of a " + other}
	case errors.As(err, &host):
		return cause{"wrong_name", which + " is for another name; see tls.server_name"}
	case errors.As(err, &failed), strings.Contains(text, "certificate"), strings.Contains(text, "x509"):
		return cause{"certificate", which + " is not accepted"}
	}
	return cause{"other", ""}
}

// explained is an error of a handshake with a server, beginning with the cause.
func explained(err error, name string) error {
	if op, ok := errors.AsType[*net.OpError](err); err == nil || ok && op.Op == "dial" {
		return err // there was no handshake
	}
	c := causeOf(err, "server", "client")
	if c.sentence == "" {
		return err
	}
	return fmt.Errorf("TLS with %s: %s: %w", name, c.sentence, err)
}

// explaining is a connection to a server, which may reject this side's certificate only
// after the handshake (TLS 1.3): what is read first is the reason then.
type explaining struct {
	net.Conn

	name string
}

// Read explains the alert of the server.
func (c explaining) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && strings.Contains(err.Error(), "remote error: tls: ") {
		err = explained(err, c.name)
	}
	return n, err
}
