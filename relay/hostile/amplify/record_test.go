package amplify

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// A record of the last known good state is a header and a protobuf message, compressed. The
// program has no descriptor of it: all field numbers below mostFields have rows, with all
// wire types that they may have.
const (
	recordKey      = 1
	recordLeg      = 5
	recordResponse = 6
	mostFields     = 16
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// unsealed are the header and the message of a record that the node has written.
func unsealed(t *testing.T, kept []byte) (header string, record []byte) {
	t.Helper()
	at := bytes.Index(kept, zstdMagic)
	if at < 0 {
		t.Fatalf("a record of %d bytes holds nothing compressed", len(kept))
	}
	unpack, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unpack.Close()
	if record, err = unpack.DecodeAll(kept[at:], nil); err != nil {
		t.Fatal(err)
	}
	return string(kept[:at]), record
}

// sealed is the reverse.
func sealed(t *testing.T, header string, record []byte) []byte {
	t.Helper()
	pack, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	return pack.EncodeAll(record, []byte(header))
}

// skipped is a text as a part of compressed data that readers skip.
func skipped(text string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0x184D2A50)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

// numbered are descriptors of fields of which only the number is known.
func numbered(t *testing.T) (all []protoreflect.FieldDescriptor) {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: new("Record")}
	for i := range int32(mostFields - 1) {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: new(fmt.Sprint("field_", i+1)), Number: new(i + 1),
			Type: descriptorpb.FieldDescriptorProto_TYPE_BYTES.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum(),
		})
	}
	d, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("record.proto"), Syntax: new("proto3"), MessageType: []*descriptorpb.DescriptorProto{m},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Messages().Get(0).Fields().Len() {
		all = append(all, d.Messages().Get(0).Fields().Get(i))
	}
	return all
}

// spoiledRecords are the rows of records, which differ from one that the node has written in
// one field. send lets the node read what spoil returns of a key.
func spoiledRecords(t *testing.T, surface, message string, record []byte, all bool, send func(t *testing.T, spoil func(key string) []byte) int) (rows []row) {
	t.Helper()
	add := func(field, pattern string, fill func(size int) []byte) {
		rows = append(rows, row{surface: surface, message: message, field: field, pattern: pattern, send: func(t *testing.T, size int) int {
			t.Helper()
			return send(t, func(key string) []byte {
				b := append(bytes.Clone(record), fill(size)...)
				return protowire.AppendString(protowire.AppendTag(b, recordKey, protowire.BytesType), key)
			})
		}})
	}
	fields := numbered(t)
	for _, f := range fields {
		name := strings.ReplaceAll(string(f.Name()), "_", " ")
		for _, p := range []pattern{emptyEntries, distinctEntries, hugeText, packed} {
			add(name, p.name, func(size int) []byte { return p.fill(f, size) })
		}
	}
	leg := fields[recordLeg-1]
	for _, f := range fields {
		for _, p := range []pattern{hugeText, packed} {
			add(fmt.Sprintf("field %d.%d", recordLeg, f.Number()), p.name, func(size int) []byte { return lengthed(leg, p.fill(f, size)) })
		}
	}
	response, of := fields[recordResponse-1], fieldIn(record, recordResponse)
	if len(of) == 0 {
		t.Fatal("the record of the node has no resources")
	}
	d := (&discoveryv3.DeltaDiscoveryResponse{}).ProtoReflect().Descriptor()
	for _, p := range fieldsOf(d) {
		if len(p) > 2 && !all {
			continue // they are read as those of a control plane are
		}
		for _, fill := range patternsFor(p.leaf(), false) {
			add(fmt.Sprintf("field %d.%s", recordResponse, p), fill.name, func(size int) []byte {
				return lengthed(response, append(bytes.Clone(of), p.messageWith(named[p[0].Name()], fill, size)...))
			})
		}
	}
	return rows
}

// fieldIn is the last field of a number in a message.
func fieldIn(b []byte, number protowire.Number) (found []byte) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeField(b)
		if size < 0 {
			return nil
		}
		if _, _, tag := protowire.ConsumeTag(b); n == number && kind == protowire.BytesType {
			found, _ = protowire.ConsumeBytes(b[tag:])
		}
		b = b[size:]
	}
	return found
}
