package v2types

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// TestFiles: the files exist, are complete, and are consistent.
func TestFiles(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if n := files.NumFiles(); n < 150 {
		t.Errorf("only %d files", n)
	}
	files.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Imports().Len() {
			if f.Imports().Get(i).IsPlaceholder() {
				t.Errorf("%s imports %s, which is missing", f.Path(), f.Imports().Get(i).Path())
			}
		}
		return true
	})
}

// TestJSON: messages that contain an Any, in fields that version 3 no longer has, and maps can be
// encoded and decoded.
func TestJSON(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	types := dynamicpb.NewTypes(files)
	const text = `{"@type":"type.googleapis.com/envoy.api.v2.Cluster","name":"c","hosts":[{"socketAddress":{"address":"127.0.0.1","portValue":1}}],
		"typedExtensionProtocolOptions":{"x":{"@type":"type.googleapis.com/envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager","statPrefix":"p"}}}`
	cluster, err := files.FindDescriptorByName("envoy.api.v2.Cluster")
	if err != nil {
		t.Fatal(err)
	}
	wrapped := cluster.(protoreflect.MessageDescriptor).Fields().ByName("typed_extension_protocol_options").MapValue().Message()
	m := dynamicpb.NewMessage(wrapped) // an Any
	if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	out, err := protojson.MarshalOptions{Resolver: types}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again := dynamicpb.NewMessage(wrapped)
	if err := (protojson.UnmarshalOptions{Resolver: types}).Unmarshal(out, again); err != nil || !proto.Equal(m, again) {
		t.Errorf("%v: %s", err, out)
	}
}
