package h2

import (
	"errors"
	"fmt"

	"golang.org/x/net/http2/hpack"
)

// Call is what the streams of one method have in common: their request headers,
// encoded once. It is immutable and may be shared between connections.
type Call struct{ block []byte }

// CallOptions say how a method is called.
type CallOptions struct {
	// Method is the path, "/package.Service/Method". Required.
	Method string
	// Authority is the host that is called. Required.
	Authority string
	// TLS chooses the scheme https.
	TLS bool
	// Gzip tells the server that it may compress responses.
	Gzip bool
}

// NewCall encodes the headers of a call.
func NewCall(o CallOptions) (*Call, error) {
	if len(o.Method) < 2 || o.Method[0] != '/' || o.Authority == "" {
		return nil, fmt.Errorf("h2: method %q at %q, expected a path and an authority", o.Method, o.Authority)
	}
	scheme := "http"
	if o.TLS {
		scheme = "https"
	}
	fields := [][2]string{
		{":method", "POST"}, {":scheme", scheme}, {":path", o.Method}, {":authority", o.Authority},
		{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "xdsbench"},
	}
	if o.Gzip {
		fields = append(fields, [2]string{"grpc-accept-encoding", "gzip"})
	}
	var block []byte
	for _, f := range fields {
		block = appendField(block, f[0], f[1])
	}
	if len(block) > maxFrame {
		return nil, errors.New("h2: the call's headers exceed one frame of 16 KiB")
	}
	return &Call{block: block}, nil
}

// appendField encodes a header field that goes into no dynamic table, so that
// the same bytes serve on every connection (RFC 7541, section 6.2.2).
func appendField(b []byte, name, value string) []byte {
	b = append(b, 0)
	b = hpackString(b, name)
	return hpackString(b, value)
}

func hpackString(b []byte, s string) []byte {
	// A 7-bit prefix whose high bit says Huffman.
	n := len(b)
	b = appendInt(b, 7, hpack.HuffmanEncodeLength(s))
	b[n] |= 0x80
	return hpack.AppendHuffmanString(b, s)
}

// appendInt encodes i with a prefix of n bits (RFC 7541, section 5.1).
func appendInt(b []byte, n int, i uint64) []byte {
	limit := uint64(1)<<n - 1
	if i < limit {
		return append(b, byte(i))
	}
	b = append(b, byte(limit))
	for i -= limit; i >= 128; i >>= 7 {
		b = append(b, byte(0x80|i&0x7f))
	}
	return append(b, byte(i))
}
