package rest

import (
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	_ "xdsrelay/relay/resource/jsontypes" // JSON needs the types inside of an Any
)

// contentKey says for whom an answer is: all clients of a key that see the same
// of a type. The key is part of it although the version proves the content, so
// that nothing could lead from one key to another.
type contentKey struct {
	key             aggregation.Key
	typeURL         string
	version, source string
}

// encode writes all that a subscription sees as a DiscoveryResponse in JSON, or
// says why it cannot be.
func (s *Server) encode(key aggregation.Key, t *resource.Type, seen cache.Seen, all []*resource.Resource) *answer {
	b := []byte(`{"versionInfo":`)
	b = appendText(b, seen.Version)
	b = append(b, `,"typeUrl":`...)
	b = appendText(b, t.URL)
	b = append(b, `,"controlPlane":{"identifier":`...)
	b = appendText(b, s.identifier(seen.Source))
	b = append(b, `},"resources":[`...)
	first := true
	for _, r := range all {
		if r.Body == nil {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		var err error
		if b, err = appendResource(b, r); err != nil {
			err = fmt.Errorf("resource %q cannot be written as JSON: %w", r.Name, err)
			s.cfg.Logger.Error("polls fail", "key", string(key), "type", t.URL, "error", err)
			return refuse(codes.Internal, http.StatusInternalServerError, err.Error())
		}
	}
	return &answer{status: http.StatusOK, body: append(b, "]}"...)}
}

// identifier is what clients see as control_plane.identifier: this node and
// the origin behind it (K7).
func (s *Server) identifier(source string) string {
	if source == "" {
		return s.cfg.NodeName
	}
	return s.cfg.NodeName + " <- " + source
}

func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text can always be written
	}
	return append(b, quoted...)
}

func appendResource(b []byte, r *resource.Resource) ([]byte, error) {
	var body anypb.Any
	if err := proto.Unmarshal(r.Body, &body); err != nil {
		return b, err
	}
	if err := writable(body.ProtoReflect(), 0); err != nil {
		return b, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(b, &body)
}

// maxNesting bounds how deep messages may lie in one another by way of an Any,
// each of which is decoded anew.
const maxNesting = 50

// writable finds what JSON would fail on or leave out: messages and fields that
// this program has no description of.
func writable(m protoreflect.Message, nesting int) error {
	if body, ok := m.Interface().(*anypb.Any); ok {
		return writableAny(body, nesting+1)
	}
	if unknown := m.GetUnknown(); len(unknown) > 0 {
		number, _, _ := protowire.ConsumeTag(unknown)
		return fmt.Errorf("%s has field %d, which this program does not know; gRPC clients are sent it as it is", m.Descriptor().FullName(), number)
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				err = writable(v.Message(), nesting)
				return err == nil
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = writable(v.List().Get(i).Message(), nesting)
			}
		default:
			err = writable(v.Message(), nesting)
		}
		return err == nil
	})
	return err
}

func writableAny(body *anypb.Any, nesting int) error {
	url := body.GetTypeUrl()
	if url == "" && len(body.GetValue()) == 0 {
		return nil
	}
	if nesting > maxNesting {
		return fmt.Errorf("more than %d messages lie in one another", maxNesting)
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(url)
	if err != nil {
		return fmt.Errorf("it holds a message of type %q, which this program does not know; gRPC clients are sent it as it is", url)
	}
	inner := t.New()
	if err := proto.Unmarshal(body.GetValue(), inner.Interface()); err != nil {
		return fmt.Errorf("it holds a message of type %q that cannot be decoded", url)
	}
	return writable(inner, nesting)
}
