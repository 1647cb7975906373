package redact

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	anyName    protoreflect.FullName = "google.protobuf.Any"
	valueName  protoreflect.FullName = "google.protobuf.Value"
	structName protoreflect.FullName = "google.protobuf.Struct"
	sourceName protoreflect.FullName = "envoy.config.core.v3.DataSource"
)

// secrets are the messages of which only the name is shown, and of what kind they
// are.
var secrets = map[protoreflect.FullName]bool{
	"envoy.extensions.transport_sockets.tls.v3.Secret": true,
}

// pairs are the messages that give a value to a name that is a value itself.
var pairs = map[protoreflect.FullName]bool{
	"envoy.config.core.v3.HeaderValue":            true,
	"envoy.config.core.v3.KeyValue":               true,
	"envoy.config.core.v3.KeyValuePair":           true,
	"envoy.config.core.v3.QueryParameter":         true,
	"envoy.config.route.v3.HeaderMatcher":         true,
	"envoy.config.route.v3.QueryParameterMatcher": true,

	"envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry":          true,
	"envoy.extensions.filters.http.header_to_metadata.v3.Config.KeyValuePair": true,
}

// hideSecret leaves of a secret its name and its kind.
func hideSecret(m protoreflect.Message) (changed bool) {
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() != "name" {
			m.Set(f, m.NewField(f))
			changed = true
		}
		return true
	})
	return changed
}

// walkPair hides the value of a pair whose name tells.
func (r *Redactor) walkPair(m protoreflect.Message, depth int) (changed bool) {
	name := m.Descriptor().Fields().ByName("key")
	if name == nil {
		name = m.Descriptor().Fields().ByName("name")
	}
	secret := Sensitive(m.Get(name).String())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f == name:
		case secret:
			changed = scrubField(m, f, v) || changed
		default:
			changed = r.walkField(m, f, v, depth) || changed
		}
		return true
	})
	return changed
}

// hidePair hides the value of a struct that says name and value as two of its
// fields.
func hidePair(m protoreflect.Message) bool {
	fields := m.Get(m.Descriptor().Fields().ByName("fields")).Map()
	text := func(key string) string {
		v := fields.Get(protoreflect.ValueOfString(key).MapKey())
		if !v.IsValid() {
			return ""
		}
		return v.Message().Get(v.Message().Descriptor().Fields().ByName("string_value")).String()
	}
	value := fields.Get(protoreflect.ValueOfString("value").MapKey())
	if !value.IsValid() || !Sensitive(text("name")) && !Sensitive(text("key")) {
		return false
	}
	return scrub(value.Message())
}

// speakable makes a value one that JSON can hold. It cannot hold none, and numbers
// that are none; a client could else keep all from being shown by its metadata.
func speakable(m protoreflect.Message) bool {
	fields := m.Descriptor().Fields()
	number := fields.ByName("number_value")
	switch f := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind")); f {
	case nil:
		m.Set(fields.ByName("null_value"), protoreflect.ValueOfEnum(0))
		return true
	case number:
		if n := m.Get(f).Float(); math.IsNaN(n) || math.IsInf(n, 0) {
			m.Set(fields.ByName("string_value"), protoreflect.ValueOfString(strconv.FormatFloat(n, 'g', -1, 64)))
			return true
		}
	}
	return false
}
