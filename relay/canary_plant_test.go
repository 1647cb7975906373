package relay_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cncf/xds/go/udpa/annotations"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/xdstest"
)

// The bounds of the walk through the descriptors of a type: how deep, and how many
// fields, the shallow ones first.
const (
	plantDepth = 7
	plantMost  = 1500
)

// planter puts canaries into messages: each is another text, without any sign in
// itself that it is a secret.
type planter struct {
	at []string // the field of each
}

// canaryMark begins each canary.
const canaryMark = "canaryZQx"

func (p *planter) next(where string) string {
	p.at = append(p.at, where)
	return p.text(len(p.at) - 1)
}

// text is the canary of a number.
func (p *planter) text(i int) string { return fmt.Sprintf("%s%05dx", canaryMark, i) }

// spot is a field that gets a canary: the way to it from a message of the top.
type spot struct {
	way []protoreflect.FieldDescriptor
	all bool // everything below the field is secret
}

func (s spot) String() string {
	var names []string
	for _, f := range s.way {
		names = append(names, string(f.Name()))
	}
	return string(s.way[0].ContainingMessage().FullName()) + ": " + strings.Join(names, ".")
}

// spots are those of a type; all says that everything in it is secret but its name.
func spots(d protoreflect.MessageDescriptor, all bool) (found []spot) {
	queue := []spot{{all: all}}
	for len(queue) > 0 && len(found) < plantMost {
		s := queue[0]
		queue = queue[1:]
		of := d
		if n := len(s.way); n > 0 {
			of = valueField(s.way[n-1]).Message()
		}
		fields := of.Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if s.all && of.FullName() == dataSource && !strings.HasPrefix(string(f.Name()), "inline_") {
				continue // where a secret is found is none
			}
			next := spot{append(slices.Clone(s.way), f), s.all || annotated(f)}
			switch value := valueField(f); {
			case all && len(s.way) == 0 && f.Name() == "name":
			case special(value):
				found = append(found, next)
			case plantable(value):
				if next.all || redact.Sensitive(string(f.Name())) || f.IsMap() && f.MapKey().Kind() == protoreflect.StringKind {
					found = append(found, next)
				}
			case value.Kind() == protoreflect.MessageKind && len(next.way) < plantDepth && !slices.ContainsFunc(s.way, func(o protoreflect.FieldDescriptor) bool {
				return o.ContainingMessage() == value.Message()
			}) && value.Message() != d:
				queue = append(queue, next)
			}
		}
	}
	return found
}

const dataSource protoreflect.FullName = "envoy.config.core.v3.DataSource"

// annotated reports whether the API says that a field is secret.
func annotated(f protoreflect.FieldDescriptor) bool {
	options, _ := f.Options().(*descriptorpb.FieldOptions)
	is, _ := proto.GetExtension(options, annotations.E_Sensitive).(bool)
	return is
}

// valueField is the field of a map's values, and every other field itself.
func valueField(f protoreflect.FieldDescriptor) protoreflect.FieldDescriptor {
	if f.IsMap() {
		return f.MapValue()
	}
	return f
}

// plantable reports whether a field can hold a canary itself.
func plantable(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return true
	case protoreflect.MessageKind:
		switch f.Message().FullName() {
		case "google.protobuf.StringValue", "google.protobuf.BytesValue", "google.protobuf.Value":
			return true
		}
	}
	return false
}

// special reports whether a field holds a message that has a name beside its value,
// or is of no fixed type.
func special(f protoreflect.FieldDescriptor) bool {
	if f.Kind() != protoreflect.MessageKind {
		return false
	}
	switch f.Message().FullName() {
	case "google.protobuf.Struct", "google.protobuf.Any", "envoy.config.core.v3.HeaderValue", "envoy.config.core.v3.KeyValue",
		"envoy.config.core.v3.QueryParameter", "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
		"envoy.extensions.filters.http.header_to_metadata.v3.Config.KeyValuePair",
		"envoy.config.route.v3.HeaderMatcher", "envoy.config.route.v3.QueryParameterMatcher":
		return true
	}
	return false
}

// free reports whether a spot of m can be had without another one of the same oneof.
func (s spot) free(m protoreflect.Message) bool {
	for _, f := range s.way {
		if o := f.ContainingOneof(); o != nil {
			if is := m.WhichOneof(o); is != nil && is != f {
				return false
			}
		}
		if !m.Has(f) {
			return true
		}
		switch {
		case valueField(f).Kind() != protoreflect.MessageKind:
			return true
		case f.IsMap():
			m = m.Get(f).Map().Get(mapKey(f)).Message()
		case f.IsList():
			m = m.Get(f).List().Get(0).Message()
		default:
			m = m.Get(f).Message()
		}
	}
	return true
}

// plant puts a canary into a spot of m.
func (p *planter) plant(m protoreflect.Message, s spot) {
	secret := p.next(s.String())
	for i, f := range s.way {
		last := i == len(s.way)-1
		value := valueField(f)
		var v protoreflect.Value
		switch {
		case f.IsMap() && value.Kind() == protoreflect.MessageKind:
			v = m.Mutable(f).Map().Mutable(mapKey(f))
		case f.IsMap():
			m.Mutable(f).Map().Set(mapKey(f), leaf(value, secret))
			return
		case f.IsList() && value.Kind() == protoreflect.MessageKind:
			if list := m.Mutable(f).List(); list.Len() == 0 || last {
				v = list.AppendMutable()
			} else {
				v = list.Get(0)
			}
		case f.IsList():
			m.Mutable(f).List().Append(leaf(value, secret))
			return
		case value.Kind() == protoreflect.MessageKind:
			v = m.Mutable(f)
		default:
			m.Set(f, leaf(value, secret))
			return
		}
		m = v.Message()
	}
	p.fill(m, secret)
}

// mapKey is the key of a canary: a name that tells, where it can be one.
func mapKey(f protoreflect.FieldDescriptor) protoreflect.MapKey {
	if f.MapKey().Kind() != protoreflect.StringKind {
		return f.MapKey().Default().MapKey()
	}
	return protoreflect.ValueOfString("api-token").MapKey()
}

func leaf(f protoreflect.FieldDescriptor, secret string) protoreflect.Value {
	if f.Kind() == protoreflect.BytesKind {
		return protoreflect.ValueOfBytes([]byte(secret))
	}
	return protoreflect.ValueOfString(secret)
}

// fill makes a message that is a spot itself hold the canary.
func (p *planter) fill(m protoreflect.Message, secret string) {
	fields := m.Descriptor().Fields()
	set := func(name protoreflect.Name, text string) {
		f := fields.ByName(name)
		m.Set(f, leaf(f, text))
	}
	switch m.Descriptor().FullName() {
	case "google.protobuf.Struct":
		proto.Merge(m.Interface(), [...]*structpb.Struct{
			fromJSON(`{"password": "` + secret + `"}`),
			fromJSON(`{"zone": "z", "deep": [{"apiToken": {"of": ["` + secret + `"]}}]}`),
			fromJSON(`{"env": [{"name": "DB_SECRET", "value": "` + secret + `"}]}`),
		}[len(p.at)%3])
	case "google.protobuf.Any":
		a := &anypb.Any{TypeUrl: "type.googleapis.com/acme.v1.Unknown", Value: []byte("\x0a\x10" + secret)}
		if len(p.at)%2 == 0 {
			a = xdstest.Any(&tlsv3.TlsCertificate{PrivateKey: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: secret}}})
		}
		proto.Merge(m.Interface(), a)
	case "envoy.config.core.v3.HeaderValue":
		set("key", "authorization")
		if len(p.at)%2 == 0 {
			set("raw_value", secret)
		} else {
			set("value", secret)
		}
	case "envoy.config.core.v3.KeyValue", "envoy.config.core.v3.QueryParameter", "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
		"envoy.extensions.filters.http.header_to_metadata.v3.Config.KeyValuePair":
		set("key", "x-api-key")
		set("value", secret)
	case "envoy.config.route.v3.HeaderMatcher", "envoy.config.route.v3.QueryParameterMatcher":
		set("name", "cookie")
		match := m.Mutable(fields.ByName("string_match")).Message()
		match.Set(match.Descriptor().Fields().ByName("exact"), protoreflect.ValueOfString(secret))
	case "google.protobuf.Value":
		set("string_value", secret)
	default: // a wrapper
		set("value", secret)
	}
}

func fromJSON(text string) *structpb.Struct {
	s := &structpb.Struct{}
	if err := s.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return s
}

// planted are resources of a type, with a canary in each field that is secret. Those
// of a oneof are in different ones.
func (p *planter) planted(of proto.Message, all bool) (made []proto.Message) {
	d := of.ProtoReflect()
	for _, s := range spots(d.Descriptor(), all) {
		i := slices.IndexFunc(made, func(m proto.Message) bool { return s.free(m.ProtoReflect()) })
		if i < 0 {
			i = len(made)
			made = append(made, d.New().Interface())
		}
		p.plant(made[i].ProtoReflect(), s)
	}
	for i, m := range made {
		if f := m.ProtoReflect().Descriptor().Fields().ByNumber(1); f != nil && f.Name() == nameField(d.Descriptor()) && f.Kind() == protoreflect.StringKind && !f.IsList() {
			m.ProtoReflect().Set(f, protoreflect.ValueOfString(fmt.Sprintf("planted-%d", i)))
		}
	}
	return made
}

// nameField is the field that names a resource.
func nameField(d protoreflect.MessageDescriptor) protoreflect.Name {
	if d.FullName() == "envoy.config.endpoint.v3.ClusterLoadAssignment" {
		return "cluster_name"
	}
	return "name"
}

// extensions are the configurations of all extensions that the program knows.
func (p *planter) extensions() (made []proto.Message) {
	var types []protoreflect.MessageType
	protoregistry.GlobalTypes.RangeMessages(func(t protoreflect.MessageType) bool {
		_, nested := t.Descriptor().Parent().(protoreflect.MessageDescriptor)
		if !nested && strings.HasPrefix(string(t.Descriptor().FullName()), "envoy.extensions.") {
			types = append(types, t)
		}
		return true
	})
	slices.SortFunc(types, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	for _, t := range types {
		secret := t.Descriptor().FullName() == "envoy.extensions.transport_sockets.tls.v3.Secret"
		for i, m := range p.planted(t.New().Interface(), secret) {
			made = append(made, xdstest.Extension(fmt.Sprintf("%s-%d", t.Descriptor().FullName(), i), m))
		}
	}
	return made
}
