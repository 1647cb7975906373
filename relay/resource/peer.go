package resource

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The nodes of a tier exchange configuration over a delta stream (ADS) with a few extensions: the
// gRPC metadata identifies the key and the node, requests may have extra fields, and each response
// has a mark.
const (
	// PeerKeyHeader is the aggregation key, unescaped.
	PeerKeyHeader = "xdsrelay-key-bin"
	// PeerLegHeader is the name of the upstream stream of the key, unescaped.
	PeerLegHeader = "xdsrelay-leg-bin"
	// PeerNodeHeader is the name of the requesting node, unescaped.
	PeerNodeHeader = "xdsrelay-node-bin"
	// PeerRuleHeader is the name of the aggregation rule of the key, unescaped; it is absent if the node
	// knows none.
	PeerRuleHeader = "xdsrelay-rule-bin"
)

// PeerMark is the additional content of a response between nodes.
type PeerMark struct {
	// Edits is how many requests that changed the subscription of its type the response answers, in
	// total; 0 if the answer is not complete. A response that crossed a request does not answer it.
	Edits uint64
	// Server is the address of the control plane's server that the key's resources are from; empty
	// if there is none, or if it was sent before.
	Server string
	// Cut is true if the sending node cannot reach the control plane.
	Cut bool
	// Age is how long ago the content of the type on the sending node was last known to be what the
	// control plane serves, in whole milliseconds. It is set while the control plane cannot be
	// reached; 0 if unknown.
	Age time.Duration
	// Trace is the trace context of the newest update in it, as W3C traceparent; empty if it is not
	// traced.
	Trace string
	// System is the version that a delta control plane gave to the content of the type; empty if
	// unknown.
	System SystemVersion
	// Errored are the names that were not sent before on the stream.
	Errored Errored
	// Kept is true if the sending node holds back the removal of resources that refer to some of the
	// type: clients keep such ones that they have, although the sending node has none.
	Kept bool
	// Versions are the control plane's own versions of the updates in it, the oldest first; the
	// newest of them if there are more than [MaxPeerVersions].
	Versions []string
}

// MaxPeerVersions bounds the versions in one mark.
const MaxPeerVersions = 16

// Errored are names for which clients may remember an error, although they have the resource.
type Errored struct {
	Names []string // at most [MaxErrored]
	// Age is the time within which clients were sent these errors, in whole seconds; 0 if unknown.
	Age time.Duration
}

// SystemVersion is the version that a delta control plane gives to content, by its
// system_version_info. It is informational: the digest identifies the content.
type SystemVersion struct {
	Version string // empty for none
	Digest  Digest
}

// Tags of the mark, which no response of the protocol has.
const (
	markEdits   = 1997 << 3
	markServer  = 1998<<3 | 2
	markCut     = 1999 << 3
	markTrace   = 2000<<3 | 2
	markSystem  = 2001<<3 | 2
	markErrored = 2002<<3 | 2
	markAsOf    = 2003 << 3
	markVersion = 2004<<3 | 2
	markKept    = 2005 << 3
)

// Tags of additional fields in a request between nodes, which no request of the protocol has: see
// [Request.Settled] and [Request.Errored].
const (
	markSettled        = 1996 << 3
	markRequestErrored = 1995<<3 | 2
)

// Ages that count as unknown: of an error in seconds, and of content in milliseconds.
const (
	longestAge        = 1 << 32
	longestContentAge = 1000 * longestAge
)

// MaxErrored bounds the names in one message for which clients may remember an error.
const MaxErrored = 1000

// Tags of a list of such names: a name, and the age in seconds.
const (
	markName = 1<<3 | 2
	markAge  = 2 << 3
)

// SettledField returns the encoded field that sets [Request.Settled].
func SettledField() []byte { return append(protowire.AppendVarint(nil, markSettled), 1) }

// ErroredField returns the encoded field that sets [Request.Errored].
func ErroredField(e Errored) []byte { return appendErrored(nil, markRequestErrored, e) }

// appendErrored appends a field of names; nothing if there are none.
func appendErrored(b []byte, tag uint64, e Errored) []byte {
	if len(e.Names) == 0 {
		return b
	}
	var list []byte
	for _, name := range e.Names {
		list = appendString(list, markName, name)
	}
	if seconds := (e.Age + time.Second - 1) / time.Second; seconds > 0 {
		list = protowire.AppendVarint(list, markAge)
		list = protowire.AppendVarint(list, uint64(seconds))
	}
	return protowire.AppendBytes(protowire.AppendVarint(b, tag), list)
}

// ReadErrored decodes [Request.Errored].
func ReadErrored(b []byte) (e Errored, err error) {
	err = eachField(b, func(f field) (err error) {
		switch {
		case f.tag == markAge && f.varint < longestAge:
			e.Age = time.Duration(f.varint) * time.Second
		case f.tag != markName:
		case len(e.Names) == MaxErrored:
			return fmt.Errorf("errored has more than %d names", MaxErrored)
		default:
			e.Names, err = appendText(e.Names, "errored", f.bytes)
		}
		return err
	})
	return e, err
}

// AppendPeerMark appends m to the fields of a delta response.
func AppendPeerMark(b []byte, m PeerMark) []byte {
	if m.Edits > 0 {
		b = protowire.AppendVarint(b, markEdits)
		b = protowire.AppendVarint(b, m.Edits)
	}
	if m.Cut {
		b = protowire.AppendVarint(b, markCut)
		b = append(b, 1)
	}
	if m.Kept {
		b = protowire.AppendVarint(b, markKept)
		b = append(b, 1)
	}
	if age := m.Age / time.Millisecond; age > 0 {
		b = protowire.AppendVarint(b, markAsOf)
		b = protowire.AppendVarint(b, uint64(age))
	}
	b = appendString(b, markServer, m.Server)
	b = appendString(b, markTrace, m.Trace)
	b = appendErrored(b, markErrored, m.Errored)
	for _, v := range m.Versions[max(0, len(m.Versions)-MaxPeerVersions):] {
		b = appendString(b, markVersion, v)
	}
	if m.System.Version == "" {
		return b
	}
	b = protowire.AppendVarint(b, markSystem)
	return protowire.AppendBytes(b, append(m.System.Digest[:], m.System.Version...))
}

// markFields are the fields of a mark, with the decoder of each.
var markFields = []struct {
	tag  uint64
	name string
	read func(m *PeerMark, f field) error
}{
	{markEdits, "edits", func(m *PeerMark, f field) error { m.Edits = f.varint; return nil }},
	{markServer, "server", func(m *PeerMark, f field) (err error) { m.Server, err = text("server", f.bytes); return err }},
	{markCut, "cut", func(m *PeerMark, f field) error { m.Cut = f.varint != 0; return nil }},
	{markKept, "kept", func(m *PeerMark, f field) error { m.Kept = f.varint != 0; return nil }},
	{markAsOf, "age", func(m *PeerMark, f field) error { m.Age = contentAge(f.varint); return nil }},
	{markTrace, "trace", func(m *PeerMark, f field) (err error) { m.Trace, err = text("trace", f.bytes); return err }},
	{markSystem, "system", func(m *PeerMark, f field) (err error) { m.System, err = readSystemVersion(f.bytes); return err }},
	{markVersion, "versions", func(m *PeerMark, f field) (err error) {
		m.Versions, err = appendVersion(m.Versions, f.bytes)
		return err
	}},
	{markErrored, "errored", func(m *PeerMark, f field) (err error) { m.Errored, err = ReadErrored(f.bytes); return err }},
}

// appendVersion appends a version of the control plane, and keeps the newest.
func appendVersion(all []string, b []byte) ([]string, error) {
	all, err := appendText(all, "version of the control plane", b)
	return all[max(0, len(all)-MaxPeerVersions):], err
}

func contentAge(ms uint64) time.Duration {
	if ms >= longestContentAge {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// readMark decodes a field of a mark, and reports whether f is one.
func (r *Response) readMark(f field) (is bool, err error) {
	for i := range markFields {
		if m := &markFields[i]; m.tag == f.tag {
			return true, m.read(&r.Mark, f)
		}
	}
	return false, nil
}

// PeerField is a field that messages between nodes have in addition to the protocol.
type PeerField struct {
	Name   string
	Number protowire.Number
	Text   bool // a string or bytes; otherwise a number
}

// PeerResponseFields returns the additional fields of a response between nodes: its mark.
func PeerResponseFields() (all []PeerField) {
	for _, f := range markFields {
		all = append(all, peerField(f.name, f.tag))
	}
	return all
}

// PeerRequestFields returns the additional fields of a request between nodes.
func PeerRequestFields() []PeerField {
	return []PeerField{peerField("settled", markSettled), peerField("request_errored", markRequestErrored)}
}

func peerField(name string, tag uint64) PeerField {
	number, kind := protowire.DecodeTag(tag)
	return PeerField{name, number, kind == protowire.BytesType}
}

// readSystemVersion decodes a digest followed by a version.
func readSystemVersion(b []byte) (v SystemVersion, err error) {
	n := copy(v.Digest[:], b)
	if n < len(v.Digest) {
		return v, fmt.Errorf("a system version of %d bytes, expected at least %d", len(b), len(v.Digest))
	}
	v.Version, err = text("system version", b[n:])
	return v, err
}

// DecodePeer is [DecodeDelta] for a response of another node.
func DecodePeer(b []byte) (*Response, error) { return decode(b, true, true, nil) }

// DoNotCacheField returns the encoded envelope field that forbids caching or sharing a resource
// (K17).
func DoNotCacheField() []byte {
	const tag, length, on = resCacheControl, 2, 1
	return append(protowire.AppendVarint(nil, tag), length, doNotCacheIs, on)
}
