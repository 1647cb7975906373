package resource

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Between the nodes of a tier configuration travels as a delta stream (ADS), with a
// little more than the protocol has: the gRPC metadata says what the stream is about,
// requests may have marks, and each response has one.
const (
	// PeerKeyHeader holds the aggregation key, as it is.
	PeerKeyHeader = "xdsrelay-key-bin"
	// PeerLegHeader names the leg of the key, as it is.
	PeerLegHeader = "xdsrelay-leg-bin"
	// PeerNodeHeader is the name of the node that asks, as it is.
	PeerNodeHeader = "xdsrelay-node-bin"
)

// PeerMark is what a response between nodes says of itself.
type PeerMark struct {
	// Edits is how many requests of its type that changed the subscription the
	// response answers, all told; 0 where it is no complete answer. A response that
	// crossed a request is none for it.
	Edits uint64
	// Server is the address of the origin's server from which the key's resources
	// come; empty where that is not said, since there is none, or it was said before.
	Server string
	// Cut says that the origin is out of reach of the node that has sent it.
	Cut bool
	// Age is how long ago, in whole milliseconds, what that node holds of the type was last
	// known to be what the origin serves, while that is out of reach; 0: that is not known.
	Age time.Duration
	// Trace is the trace context of the newest update in it, as W3C's traceparent;
	// empty where it is not traced.
	Trace string
	// System is how a delta control plane calls what the key's resources of the type are
	// then; empty where that is not known.
	System SystemVersion
	// Errored are those that were not sent before on the stream.
	Errored Errored
}

// Errored are names of which clients may remember an error, although they hold the
// resource.
type Errored struct {
	Names []string // at most [MaxErrored]
	// Age says that clients were sent these errors within so much time, in whole seconds.
	// 0: that is not known.
	Age time.Duration
}

// SystemVersion is the name that a delta control plane gives to content, by its
// system_version_info. It is for people: the digest says which content that is.
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
)

// Tags of fields of a request between nodes, which no request of the protocol has: see
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

// MaxErrored bounds the names in one message of which clients may remember an error.
const MaxErrored = 1000

// Tags of a list of such names: a name, and the age in seconds.
const (
	markName = 1<<3 | 2
	markAge  = 2 << 3
)

// SettledField is the encoded field that sets [Request.Settled].
func SettledField() []byte { return append(protowire.AppendVarint(nil, markSettled), 1) }

// ErroredField is the encoded field that sets [Request.Errored].
func ErroredField(e Errored) []byte { return appendErrored(nil, markRequestErrored, e) }

// appendErrored appends a field of names; none where there are none.
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

// ReadErrored reads [Request.Errored].
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
	if age := m.Age / time.Millisecond; age > 0 {
		b = protowire.AppendVarint(b, markAsOf)
		b = protowire.AppendVarint(b, uint64(age))
	}
	b = appendString(b, markServer, m.Server)
	b = appendString(b, markTrace, m.Trace)
	b = appendErrored(b, markErrored, m.Errored)
	if m.System.Version == "" {
		return b
	}
	b = protowire.AppendVarint(b, markSystem)
	return protowire.AppendBytes(b, append(m.System.Digest[:], m.System.Version...))
}

// markFields are the fields of a mark, with how each is read.
var markFields = []struct {
	tag  uint64
	name string
	read func(m *PeerMark, f field) error
}{
	{markEdits, "edits", func(m *PeerMark, f field) error { m.Edits = f.varint; return nil }},
	{markServer, "server", func(m *PeerMark, f field) (err error) { m.Server, err = text("server", f.bytes); return err }},
	{markCut, "cut", func(m *PeerMark, f field) error { m.Cut = f.varint != 0; return nil }},
	{markAsOf, "age", func(m *PeerMark, f field) error { m.Age = contentAge(f.varint); return nil }},
	{markTrace, "trace", func(m *PeerMark, f field) (err error) { m.Trace, err = text("trace", f.bytes); return err }},
	{markSystem, "system", func(m *PeerMark, f field) (err error) { m.System, err = readSystemVersion(f.bytes); return err }},
	{markErrored, "errored", func(m *PeerMark, f field) (err error) { m.Errored, err = ReadErrored(f.bytes); return err }},
}

func contentAge(ms uint64) time.Duration {
	if ms >= longestContentAge {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// readMark reads a field of a mark, and reports whether f is one.
func (r *Response) readMark(f field) (is bool, err error) {
	for i := range markFields {
		if m := &markFields[i]; m.tag == f.tag {
			return true, m.read(&r.Mark, f)
		}
	}
	return false, nil
}

// PeerField is a field that messages between nodes have and the protocol lacks.
type PeerField struct {
	Name   string
	Number protowire.Number
	Text   bool // a string or bytes; else a number
}

// PeerResponseFields are the fields that a response between nodes has in addition to
// those of the protocol: its mark.
func PeerResponseFields() (all []PeerField) {
	for _, f := range markFields {
		all = append(all, peerField(f.name, f.tag))
	}
	return all
}

// PeerRequestFields are the same of a request.
func PeerRequestFields() []PeerField {
	return []PeerField{peerField("settled", markSettled), peerField("request_errored", markRequestErrored)}
}

func peerField(name string, tag uint64) PeerField {
	number, kind := protowire.DecodeTag(tag)
	return PeerField{name, number, kind == protowire.BytesType}
}

// readSystemVersion reads a digest, and behind it a version.
func readSystemVersion(b []byte) (v SystemVersion, err error) {
	n := copy(v.Digest[:], b)
	if n < len(v.Digest) {
		return v, fmt.Errorf("a system version of %d bytes, expected at least %d", len(b), len(v.Digest))
	}
	v.Version, err = text("system version", b[n:])
	return v, err
}

// DecodePeer is [DecodeDelta] for a response of another node.
func DecodePeer(b []byte) (*Response, error) { return decodeFrom(b, true, true) }

// DoNotCacheField is the encoded envelope field that forbids to keep or share a
// resource (K17).
func DoNotCacheField() []byte {
	const tag, length, on = resCacheControl, 2, 1
	return append(protowire.AppendVarint(nil, tag), length, doNotCacheIs, on)
}
