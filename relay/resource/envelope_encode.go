package resource

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// envelope is an envoy.service.discovery.v3.Resource to encode. Empty fields, and a ttl that is not
// positive, are left out.
type envelope struct {
	name, version string
	body          []byte // an encoded Any
	ttl           time.Duration
	extra         []byte // encoded fields
}

func (e *envelope) size() int {
	n := stringSize(resName, e.name) + stringSize(resVersion, e.version) + len(e.extra)
	if e.body != nil {
		n += protowire.SizeVarint(resBody) + protowire.SizeBytes(len(e.body))
	}
	if e.ttl > 0 {
		n += protowire.SizeVarint(resTTL) + protowire.SizeBytes(durationSize(e.ttl))
	}
	return n
}

// appendEnvelope appends the length of e and e.
func appendEnvelope(b []byte, e envelope) []byte {
	b = protowire.AppendVarint(b, uint64(e.size()))
	b = appendString(b, resName, e.name)
	b = appendString(b, resVersion, e.version)
	if e.body != nil {
		b = protowire.AppendVarint(b, resBody)
		b = protowire.AppendBytes(b, e.body)
	}
	if e.ttl > 0 {
		b = protowire.AppendVarint(b, resTTL)
		b = appendDuration(b, e.ttl)
	}
	return append(b, e.extra...)
}

// appendWrapped appends an Any that holds e, preceded by its length. A SotW response uses it to
// send more of a resource than its body (F2). The version is that of the response; other envelope
// fields have no meaning on SotW.
func appendWrapped(b []byte, e envelope) []byte {
	value := e.size()
	size := stringSize(anyTypeURL, resourceWrapper) + protowire.SizeVarint(anyValue) + protowire.SizeBytes(value)
	b = protowire.AppendVarint(b, uint64(size))
	b = appendString(b, anyTypeURL, resourceWrapper)
	b = protowire.AppendVarint(b, anyValue)
	return appendEnvelope(b, e)
}

func durationSize(d time.Duration) (n int) {
	if s := d / time.Second; s > 0 {
		n += protowire.SizeVarint(durationSeconds) + protowire.SizeVarint(uint64(s))
	}
	if ns := d % time.Second; ns > 0 {
		n += protowire.SizeVarint(durationNanos) + protowire.SizeVarint(uint64(ns))
	}
	return n
}

// appendDuration appends a google.protobuf.Duration, preceded by its length. d must not be
// negative.
func appendDuration(b []byte, d time.Duration) []byte {
	b = protowire.AppendVarint(b, uint64(durationSize(d)))
	if s := d / time.Second; s > 0 {
		b = protowire.AppendVarint(b, durationSeconds)
		b = protowire.AppendVarint(b, uint64(s))
	}
	if ns := d % time.Second; ns > 0 {
		b = protowire.AppendVarint(b, durationNanos)
		b = protowire.AppendVarint(b, uint64(ns))
	}
	return b
}
