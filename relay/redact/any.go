package redact

import (
	"fmt"
	"strings"

	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	// The types that can be looked into.
	_ "github.com/cncf/xds/go/udpa/type/v1"

	// And those that Envoy has.
	_ "xdsrelay/relay/resource/jsontypes"
)

// maxURL is how much of a type URL is shown that nobody knows, in bytes.
const maxURL = 256

// Any hides in a what is not to be shown. What is in it of an unknown type gets a
// TypedStruct in its place, which says the type and how large it was; that can be
// written as JSON, too.
func (r *Redactor) Any(a *anypb.Any) bool { return r.walk(a.ProtoReflect(), 0) }

// JSON returns what may be shown of a resource, whose body is an encoded Any, as
// JSON.
func JSON(body []byte) ([]byte, error) {
	a := &anypb.Any{}
	if err := proto.Unmarshal(body, a); err != nil {
		return nil, fmt.Errorf("a resource that is not a google.protobuf.Any: %w", err)
	}
	new(Redactor).Any(a)
	return protojson.Marshal(a)
}

// walkAny looks into the message inside of an Any.
func (r *Redactor) walkAny(m protoreflect.Message, depth int) bool {
	url, value := anyParts(m)
	if url == "" && len(value) == 0 {
		return false
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return hideAny(m)
	}
	inner := t.New()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(value, inner.Interface()); err != nil {
		return hideAny(m)
	}
	changed := r.walk(inner, depth+1)
	switch name := inner.Descriptor().FullName(); {
	case isWrapper(name) && len(value) > 0:
		return hideAny(m)
	case opaque[name]:
		changed = hideTexts(inner, depth+1) || changed
	}
	if !changed {
		return false
	}
	return setAny(m, url, inner.Interface())
}

// hideAny puts in the place of what an Any holds the words what it was.
func hideAny(m protoreflect.Message) bool {
	url, value := anyParts(m)
	if len(url) > maxURL {
		url = strings.ToValidUTF8(url[:maxURL], "")
	}
	return setAny(m, "type.googleapis.com/xds.type.v3.TypedStruct", &xdstypev3.TypedStruct{
		TypeUrl: patterns(url),
		Value: &structpb.Struct{Fields: map[string]*structpb.Value{
			"redacted": structpb.NewStringValue(fmt.Sprintf("%d bytes", len(value))),
		}},
	})
}

func anyParts(m protoreflect.Message) (url string, value []byte) {
	fields := m.Descriptor().Fields()
	return m.Get(fields.ByName("type_url")).String(), m.Get(fields.ByName("value")).Bytes()
}

// setAny makes an Any hold another message. One that cannot be encoded is left out.
func setAny(m protoreflect.Message, url string, inner proto.Message) bool {
	value, err := (proto.MarshalOptions{AllowPartial: true, Deterministic: true}).Marshal(inner)
	if err != nil {
		value = nil
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("type_url"), protoreflect.ValueOfString(url))
	m.Set(fields.ByName("value"), protoreflect.ValueOfBytes(value))
	return true
}
