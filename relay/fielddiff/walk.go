package fielddiff

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"xdsrelay/relay/redact"
)

// maxDepth is how deep messages are compared; below, they are compared as a whole.
const maxDepth = 64

const (
	anyName    protoreflect.FullName = "google.protobuf.Any"
	structName protoreflect.FullName = "google.protobuf.Struct"
	valueName  protoreflect.FullName = "google.protobuf.Value"
	listName   protoreflect.FullName = "google.protobuf.ListValue"
	wellKnown                        = "google.protobuf."
)

// differ collects differences.
type differ struct {
	Diff
	limit    int
	redactor redact.Redactor
	single   bool // one version does not exist: all of the other is added or removed
}

// report adds a difference. The values are rendered only if there is room for it.
func (d *differ) report(path string, c Change, from, to func() string) {
	if len(d.Fields) >= d.limit {
		d.Omitted++
		return
	}
	f := Field{Path: shorten(path, maxPath), Change: c}
	if from != nil {
		f.Old = from()
	}
	if to != nil {
		f.New = to()
	}
	d.Fields = append(d.Fields, f)
}

// message compares two messages that exist.
func (d *differ) message(path string, a, b pair, depth int) {
	if same(a, b) {
		return
	}
	name := a.shown.Descriptor().FullName()
	if name != b.shown.Descriptor().FullName() || depth > maxDepth {
		d.whole(path, a, b)
		return
	}
	if a.raw == nil || b.raw == nil {
		a.raw, b.raw = nil, nil
	}
	switch {
	case name == anyName:
		d.any(path, a, b, depth)
	case name == valueName:
		d.value(path, a, b, depth)
	case strings.HasPrefix(string(name), wellKnown) && name != structName && name != listName:
		d.whole(path, a, b)
	default:
		d.fields(path, a, b, depth)
	}
}

// whole reports two messages that differ as one difference.
func (d *differ) whole(path string, a, b pair) {
	if proto.Equal(a.shown.Interface(), b.shown.Interface()) {
		d.report(path, Hidden, nil, nil)
		return
	}
	d.report(path, Changed, func() string { return messageText(a.shown) }, func() string { return messageText(b.shown) })
}

// any compares what is in two Anys.
func (d *differ) any(path string, a, b pair, depth int) {
	x, y := pair{shown: openAny(a.shown)}, pair{shown: openAny(b.shown)}
	if x.shown == nil || y.shown == nil || anyURL(a.shown) != anyURL(b.shown) {
		d.whole(path, a, b)
		return
	}
	if a.raw != nil && anyURL(a.raw) == anyURL(a.shown) && anyURL(b.raw) == anyURL(b.shown) {
		x.raw, y.raw = openAny(a.raw), openAny(b.raw)
	}
	if x.raw == nil || y.raw == nil { // hidden as a whole
		x.raw, y.raw = nil, nil
	}
	switch {
	case !same(x, y):
		d.message(path, x, y, depth+1)
	case x.raw == nil:
		d.report(path, Hidden, nil, nil)
	default:
		d.report(path, Encoding, nil, nil)
	}
}

// value compares two values of structs.
func (d *differ) value(path string, a, b pair, depth int) {
	kind := a.shown.Descriptor().Oneofs().ByName("kind")
	f := a.shown.WhichOneof(kind)
	if f == nil || f != b.shown.WhichOneof(kind) || f.Message() == nil {
		d.whole(path, a, b)
		return
	}
	if a.raw != nil && (a.raw.WhichOneof(kind) != f || b.raw.WhichOneof(kind) != f) {
		a.raw, b.raw = nil, nil
	}
	d.message(path, a.get(f), b.get(f), depth+1)
}

func (p pair) get(f protoreflect.FieldDescriptor) pair {
	out := pair{shown: p.shown.Get(f).Message()}
	if p.raw != nil {
		out.raw = p.raw.Get(f).Message()
	}
	return out
}

// fields compares two messages field by field.
func (d *differ) fields(path string, a, b pair, depth int) {
	fields := a.shown.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		at := path
		if name := a.shown.Descriptor().FullName(); name != structName && name != listName {
			at = join(path, f.JSONName())
		}
		had, has := a.shown.Has(f), b.shown.Has(f)
		x, y := a.shown.Get(f), b.shown.Get(f)
		hides := a.raw != nil && !a.raw.Get(f).Equal(b.raw.Get(f))
		switch {
		case x.Equal(y) && had == has && !hides && (a.raw == nil || a.raw.Has(f) == b.raw.Has(f)):
		case x.Equal(y) && had == has && (!had || f.Message() == nil && !f.IsList()):
			d.report(at, Hidden, nil, nil)
		case f.IsMap():
			d.entries(at, f, a, b, depth)
		case f.IsList():
			d.list(at, f, a, b, depth)
		case had && has && f.Message() != nil:
			d.message(at, d.sub(f, a, b, true), d.sub(f, a, b, false), depth+1)
		case had != has && (d.single || f.HasPresence() || f.Message() != nil):
			d.one(at, f, x, y, had)
		default:
			d.report(at, Changed, text(f, x), text(f, y))
		}
	}
	if a.raw != nil && !slices.Equal(a.raw.GetUnknown(), b.raw.GetUnknown()) {
		d.report(join(path, "(unknown fields)"), Hidden, nil, nil)
	}
}

// sub returns the message in a field that both sides have.
func (d *differ) sub(f protoreflect.FieldDescriptor, a, b pair, first bool) pair {
	if a.raw != nil && (!a.raw.Has(f) || !b.raw.Has(f)) {
		a.raw, b.raw = nil, nil
	}
	if first {
		return a.get(f)
	}
	return b.get(f)
}

// one reports a field that only one side has.
func (d *differ) one(path string, f protoreflect.FieldDescriptor, from, to protoreflect.Value, had bool) {
	if had {
		d.report(path, Removed, text(f, from), nil)
	} else {
		d.report(path, Added, nil, text(f, to))
	}
}

// entries compares two maps.
func (d *differ) entries(path string, f protoreflect.FieldDescriptor, a, b pair, depth int) {
	x, y := a.shown.Get(f).Map(), b.shown.Get(f).Map()
	var rawX, rawY protoreflect.Map
	if a.raw != nil {
		rawX, rawY = a.raw.Get(f).Map(), b.raw.Get(f).Map()
	}
	value := f.MapValue()
	seen := len(d.Fields) + d.Omitted
	for _, k := range keys(x, y) {
		at := path + "[" + shorten(keyText(k), maxKey) + "]"
		switch v, w := x.Get(k), y.Get(k); {
		case !v.IsValid() || !w.IsValid():
			d.one(at, value, v, w, v.IsValid())
		default:
			var rv, rw protoreflect.Value
			if rawX != nil {
				rv, rw = rawX.Get(k), rawY.Get(k)
			}
			d.element(at, value, elements{v, w, rv, rw}, depth)
		}
	}
	if seen == len(d.Fields)+d.Omitted { // keys that are hidden differ
		d.report(path, Hidden, nil, nil)
	}
}

// elements are the values of both sides, as shown and as they are; the latter may be invalid.
type elements struct{ from, to, rawFrom, rawTo protoreflect.Value }

// element compares two elements of a list or map.
func (d *differ) element(path string, f protoreflect.FieldDescriptor, e elements, depth int) {
	raw := e.rawFrom.IsValid() && e.rawTo.IsValid()
	if f.Message() != nil {
		a, b := pair{shown: e.from.Message()}, pair{shown: e.to.Message()}
		if raw {
			a.raw, b.raw = e.rawFrom.Message(), e.rawTo.Message()
		}
		d.message(path, a, b, depth+1)
		return
	}
	switch {
	case !e.from.Equal(e.to):
		d.report(path, Changed, text(f, e.from), text(f, e.to))
	case raw && !e.rawFrom.Equal(e.rawTo):
		d.report(path, Hidden, nil, nil)
	}
}

// keys returns the keys of two maps in order.
func keys(x, y protoreflect.Map) (all []protoreflect.MapKey) {
	add := func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		all = append(all, k)
		return true
	}
	x.Range(add)
	y.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool { return x.Has(k) || add(k, v) })
	slices.SortFunc(all, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func keyText(k protoreflect.MapKey) string {
	if s, is := k.Interface().(string); is {
		return jsonText(s)
	}
	return k.String()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// openAny returns the message in an Any, nil if m is none or its type is unknown.
func openAny(m protoreflect.Message) protoreflect.Message {
	if m.Descriptor().FullName() != anyName {
		return nil
	}
	t, err := protoregistry.GlobalTypes.FindMessageByURL(anyURL(m))
	if err != nil {
		return nil
	}
	inner := t.New()
	value := m.Get(m.Descriptor().Fields().ByName("value")).Bytes()
	if (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(value, inner.Interface()) != nil {
		return nil
	}
	return inner
}

func anyURL(m protoreflect.Message) string {
	return m.Get(m.Descriptor().Fields().ByName("type_url")).String()
}
