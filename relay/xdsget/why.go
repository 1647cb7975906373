package xdsget

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/xdsclient"
)

// minTLS is the oldest version of TLS.
const minTLS = tls.VersionTLS12

// Kind is why a stream, or an attempt at one, ended, as far as it matters for advice.
type Kind string

// The kinds.
const (
	Refused       Kind = "connection refused"
	Unresolved    Kind = "name not found"
	Timeout       Kind = "timeout"
	NeedsTLS      Kind = "the server uses TLS"
	NoTLS         Kind = "the server does not use TLS"
	NotGRPC       Kind = "the server does not use gRPC"
	Authority     Kind = "unknown authority"
	WrongName     Kind = "certificate for another name"
	NoCertificate Kind = "client certificate required"
	BadTLS        Kind = "TLS"
	Denied        Kind = "denied"
	Invalid       Kind = "invalid request"
	Unimplemented Kind = "unimplemented"
	Closed        Kind = "closed" // by the server, with status OK
	Other         Kind = "other"
)

// Error is why a stream, or an attempt at one, ended.
type Error struct {
	Kind Kind
	// Text describes it, with the address of the server. It may be shown.
	Text string
	// Final is true if another attempt would fail the same way.
	Final bool
	// Type is the type URL of a stream per type; empty for an aggregated stream.
	Type string
}

// Error returns the text.
func (e *Error) Error() string {
	if e.Type != "" {
		return xdsclient.ShortType(e.Type) + ": " + e.Text
	}
	return e.Text
}

// causes are texts in errors of connections that have a kind, the first that is found counts.
var causes = []struct {
	text  string
	kind  Kind
	words string
	final bool
}{
	{"connection refused", Refused, "connection refused", false},
	{"no such host", Unresolved, "no such host", false},
	{"no such file", Unresolved, "no such socket", false},
	{"remote error: tls: certificate required", NoCertificate, "the server requires a client certificate from an authority that it trusts", true},
	{"remote error: tls: unknown certificate authority", NoCertificate, "the server does not trust the authority of the client certificate", true},
	{"remote error: tls: bad certificate", NoCertificate, "the server rejected the client certificate", true},
	{"remote error: tls: ", BadTLS, "", true},
	{"first record does not look like a TLS handshake", NoTLS, "the server does not use TLS", true},
	{"unknown authority", Authority, "the certificate of the server is from an authority that is not trusted here", true},
	{"certificate is valid for", WrongName, "the certificate of the server is for another name: ", true},
	{"not valid for any names", WrongName, "the certificate of the server is for another name: ", true},
	{"doesn't contain any IP SANs", WrongName, "the certificate of the server is for another name: ", true},
	{"x509: ", BadTLS, "", true},
	{"ALPN", BadTLS, "the server does not offer HTTP/2 over TLS (ALPN h2)", true},
	{"looked like an HTTP/1.1 header", NotGRPC, "the server uses HTTP/1.1, not gRPC", true},
	{"frame too large", NeedsTLS, "the server does not accept plaintext gRPC: it may require TLS", true},
	{"error reading server preface: EOF", NeedsTLS, "the server closed the connection: it may require TLS", false},
	{"connection reset by peer", NeedsTLS, "the server closed the connection: it may require TLS", false},
	{"i/o timeout", Timeout, "no answer", false},
	{"context deadline exceeded", Timeout, "no answer", false},
}

// explain returns why a stream, or an attempt at one, ended.
func explain(err error, addr string, secured bool) *Error {
	if err == io.EOF { //nolint:errorlint // the value of gRPC for a stream that ended with status OK
		return &Error{Kind: Closed, Text: fmt.Sprintf("the server at %s closed the stream", addr)}
	}
	s := status.Convert(err)
	text := innermost(s.Message())
	if s.Code() == codes.Unavailable {
		for _, c := range causes {
			if !strings.Contains(text, c.text) || c.kind == NeedsTLS && secured {
				continue
			}
			words := c.words
			if _, detail, ok := strings.Cut(text, "x509: "); ok && c.kind == WrongName {
				words += redact.Text(detail)
			}
			if words == "" {
				words = redact.Text(text)
			}
			return &Error{Kind: c.kind, Text: fmt.Sprintf("cannot connect to %s: %s", addr, words), Final: c.final}
		}
	}
	e := &Error{Kind: Other, Text: fmt.Sprintf("the server at %s ended the stream: %s: %s", addr, codeName(s.Code()), redact.Text(text))}
	switch s.Code() {
	case codes.PermissionDenied, codes.Unauthenticated:
		e.Kind, e.Final = Denied, true
	case codes.InvalidArgument, codes.FailedPrecondition:
		e.Kind, e.Final = Invalid, true
	case codes.Unimplemented:
		e.Kind, e.Final = Unimplemented, true
	}
	return e
}

// innermost drops what gRPC puts around the error of a connection.
func innermost(text string) string {
	for _, around := range []string{`connection error: desc = "`, `transport: Error while dialing: `, `transport: authentication handshake failed: `} {
		if _, inner, ok := strings.Cut(text, around); ok {
			text = strings.TrimSuffix(inner, `"`)
		}
	}
	return text
}

// codeName is the name of a status code as in the gRPC specification.
func codeName(c codes.Code) string {
	if c == codes.Canceled {
		return "CANCELLED"
	}
	var b strings.Builder
	for i, r := range c.String() {
		if i > 0 && r >= 'A' && r <= 'Z' && c != codes.OK {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
