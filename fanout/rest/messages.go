package rest

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"xdsrelay/relay/resource"
	_ "xdsrelay/relay/resource/jsontypes" // JSON needs the types of the messages in an Any
	"xdsrelay/relay/resource/v2types"
)

// messageTypes resolves the messages that can be written as JSON.
type messageTypes interface {
	protoregistry.MessageTypeResolver
	protoregistry.ExtensionTypeResolver
}

// messages returns the resolver for a resource type.
func (s *Server) messages(t *resource.Type) messageTypes {
	if t.V2 {
		return s.v2
	}
	return protoregistry.GlobalTypes
}

// v2Messages resolves the messages of version 2 and, besides them, those of the program.
type v2Messages struct{ *dynamicpb.Types }

func newV2Messages() (*v2Messages, error) {
	files, err := v2types.Files()
	if err != nil {
		return nil, err
	}
	return &v2Messages{dynamicpb.NewTypes(files)}, nil
}

// FindMessageByURL resolves the type of an Any.
func (m *v2Messages) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if t, err := m.Types.FindMessageByURL(url); err == nil {
		return t, nil
	}
	return protoregistry.GlobalTypes.FindMessageByURL(url)
}

// writer finds messages and fields without a descriptor. JSON would fail on the first and omit the
// second.
type writer struct{ types messageTypes }

// maxNesting bounds the nesting of messages by way of Any. Each level is decoded again.
const maxNesting = 50

// check checks m, which is nested at the given depth.
func (w writer) check(m protoreflect.Message, nesting int) error {
	d := m.Descriptor()
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		number, _, _ := protowire.ConsumeTag(unknown)
		return fmt.Errorf("%s has field %d, which this program does not know; gRPC clients receive it unchanged", d.FullName(), number)
	}
	if d.FullName() == "google.protobuf.Any" {
		return w.checkAny(m.Get(d.Fields().ByNumber(1)).String(), m.Get(d.Fields().ByNumber(2)).Bytes(), nesting+1)
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				err = w.check(v.Message(), nesting)
				return err == nil
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = w.check(v.List().Get(i).Message(), nesting)
			}
		default:
			err = w.check(v.Message(), nesting)
		}
		return err == nil
	})
	return err
}

func (w writer) checkAny(url string, value []byte, nesting int) error {
	if url == "" && len(value) == 0 {
		return nil
	}
	if nesting > maxNesting {
		return fmt.Errorf("more than %d levels of nested messages", maxNesting)
	}
	t, err := w.types.FindMessageByURL(url)
	if err != nil {
		return fmt.Errorf("it holds a message of type %q, which this program does not know; gRPC clients receive it unchanged", url)
	}
	inner := t.New()
	if err := proto.Unmarshal(value, inner.Interface()); err != nil {
		return fmt.Errorf("it holds a message of type %q that cannot be decoded", url)
	}
	return w.check(inner, nesting)
}
