package floor

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"xdsrelay/bench/content"
)

// frameHeader is what gRPC puts before a message: no compression, and a length.
const frameHeader = 5

// message is an encoded response. It is immutable.
type message struct {
	typeURL string
	framed  []byte          // with gRPC's header
	buffers mem.BufferSlice // without
}

func (m *message) size() int { return len(m.framed) - frameHeader }

// Field numbers of both variants' responses, and of the delta variant's
// resources.
const (
	fieldVersion   protowire.Number = 1 // system_version_info in delta
	fieldResources protowire.Number = 2
	fieldTypeURL   protowire.Number = 4
	fieldNonce     protowire.Number = 5

	fieldResourceVersion protowire.Number = 1
	fieldResourceBody    protowire.Number = 2
	fieldResourceName    protowire.Number = 3
)

// table is what there is of one type in one key, each resource as a response's
// field.
type table struct {
	typeURL  string
	place    int    // among the types
	revision uint64 // of the last change
	fields   [][]byte
}

// newTable encodes the first content of the type in a place, of key k.
func newTable(place, k int, state *content.State, delta bool) (*table, error) {
	typeURL := state.Spec().Types()[place]
	t := &table{typeURL: typeURL, place: place, fields: make([][]byte, state.Spec().Count(typeURL))}
	for i := range t.fields {
		if err := t.encode(k, i, state, delta); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// encode encodes resource i of key k as it is now.
func (t *table) encode(k, i int, state *content.State, delta bool) error {
	stamp := state.Stamp(t.typeURL, i)
	b, err := proto.Marshal(state.Spec().Resource(t.typeURL, k, i, stamp))
	if err != nil {
		return fmt.Errorf("encode %s: %w", content.Name(t.typeURL, k, i), err)
	}
	if delta {
		inner := appendString(nil, fieldResourceVersion, longRevision(stamp.Revision))
		inner = appendBytes(inner, fieldResourceBody, b)
		b = appendString(inner, fieldResourceName, content.Name(t.typeURL, state.Spec().Source(k), i))
	}
	t.fields[i] = appendBytes(nil, fieldResources, b)
	t.revision = stamp.Revision
	return nil
}

// first is the answer to a first request, with everything.
func (t *table) first() *message { return t.build("s"+t.nonce(), t.fields) }

// whole is a change that is told with everything.
func (t *table) whole() *message { return t.build(t.nonce(), t.fields) }

// part is a change that is told with what changed.
func (t *table) part(numbers []int) *message {
	fields := make([][]byte, len(numbers))
	for i, n := range numbers {
		fields[i] = t.fields[n]
	}
	return t.build(t.nonce(), fields)
}

// nonce is one of its own for the revision and the type, and short.
func (t *table) nonce() string { return revisionText(t.revision) + string("celr"[t.place]) }

func (t *table) build(nonce string, fields [][]byte) *message {
	size := frameHeader + 128 + len(t.typeURL) + len(nonce)
	for _, f := range fields {
		size += len(f)
	}
	b := make([]byte, frameHeader, size)
	b = appendString(b, fieldVersion, revisionText(t.revision))
	for _, f := range fields {
		b = append(b, f...)
	}
	b = appendString(b, fieldTypeURL, t.typeURL)
	b = appendString(b, fieldNonce, nonce)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-frameHeader))
	return &message{typeURL: t.typeURL, framed: b, buffers: mem.BufferSlice{mem.SliceBuffer(b[frameHeader:])}}
}

func revisionText(revision uint64) string { return strconv.FormatUint(revision, 10) }

// longRevision is a revision as long as the hashes that go-control-plane has for
// versions of resources, so that there is as much to send.
func longRevision(revision uint64) string { return fmt.Sprintf("%064d", revision) }

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}
