package fielddiff

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// list compares two lists.
func (d *differ) list(path string, f protoreflect.FieldDescriptor, a, b pair, depth int) {
	x, y := a.shown.Get(f).List(), b.shown.Get(f).List()
	var rawX, rawY protoreflect.List
	if a.raw != nil {
		rawX, rawY = a.raw.Get(f).List(), b.raw.Get(f).List()
		if rawX.Len() != x.Len() || rawY.Len() != y.Len() {
			rawX, rawY = nil, nil
		}
	}
	seen := len(d.Fields) + d.Omitted
	m := match(f, x, y, rawX, rawY)
	for i, j := range m.to { // j is the index in the new list
		if j < 0 {
			d.report(index(path, i), Removed, text(f, x.Get(i)), nil)
			continue
		}
		e := elements{from: x.Get(i), to: y.Get(j)}
		if rawX != nil {
			e.rawFrom, e.rawTo = rawX.Get(i), rawY.Get(j)
		}
		d.element(index(path, j), f, e, depth)
	}
	for j, matched := range m.matched {
		if !matched {
			d.report(index(path, j), Added, nil, text(f, y.Get(j)))
		}
	}
	switch {
	case !m.inOrder():
		d.report(path, Reordered, nil, nil)
	case seen == len(d.Fields)+d.Omitted:
		d.report(path, Hidden, nil, nil)
	}
}

// matching says which elements of two lists belong together.
type matching struct {
	to      []int  // for each old element, the index of the new one; -1 for none
	matched []bool // for each new element, whether there is an old one
}

// inOrder reports whether the elements that both lists have are in the same order.
func (m *matching) inOrder() bool {
	last := -1
	for _, j := range m.to {
		if j < 0 {
			continue
		}
		if j < last {
			return false
		}
		last = j
	}
	return true
}

// match finds the elements that belong together: equal ones, then those of one name, then what
// remains, in order. The time is proportional to the size of the lists.
func match(f protoreflect.FieldDescriptor, x, y, rawX, rawY protoreflect.List) *matching {
	m := &matching{to: make([]int, x.Len()), matched: make([]bool, y.Len())}
	for i := range m.to {
		m.to[i] = -1
	}
	link := func(i, j int) { m.to[i], m.matched[j] = j, true }
	shownX, shownY := x, y
	if rawX != nil {
		x, y = rawX, rawY // elements that differ in something hidden are not equal
	}
	m.by(link, func(i int) string { return identity(f, x.Get(i)) }, func(j int) string { return identity(f, y.Get(j)) })
	m.by(link, func(i int) string { return nameOf(f, shownX.Get(i)) }, func(j int) string { return nameOf(f, shownY.Get(j)) })
	m.inBetween(link, func(i int) bool { return nameOf(f, shownX.Get(i)) == "" }, func(j int) bool { return nameOf(f, shownY.Get(j)) == "" })
	return m
}

// by links unmatched elements that have the same text; those without one remain.
func (m *matching) by(link func(i, j int), from, to func(int) string) {
	free := make(map[string][]int)
	for j, taken := range m.matched {
		if taken {
			continue
		}
		if s := to(j); s != "" {
			free[s] = append(free[s], j)
		}
	}
	for i, j := range m.to {
		if j >= 0 || len(free) == 0 {
			continue
		}
		if s := from(i); s != "" && len(free[s]) > 0 {
			link(i, free[s][0])
			free[s] = free[s][1:]
		}
	}
}

// inBetween links the unmatched elements without a name that are between the same matched ones.
func (m *matching) inBetween(link func(i, j int), from, to func(int) bool) {
	before := make([]int, len(m.to)) // the first matched new index after each old one
	next := len(m.matched)
	for i := len(m.to) - 1; i >= 0; i-- {
		if before[i] = next; m.to[i] >= 0 {
			next = m.to[i]
		}
	}
	j := 0
	for i, at := range m.to {
		if at >= 0 {
			j = max(j, at+1)
			continue
		}
		for j < before[i] && (m.matched[j] || !to(j)) {
			j++
		}
		if j < before[i] && from(i) {
			link(i, j)
		}
	}
}

// identity is equal for equal elements.
func identity(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.Message() == nil {
		return "=" + v.String()
	}
	b, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(v.Message().Interface())
	if err != nil {
		return ""
	}
	return "=" + string(b)
}

// nameOf is the name of an element, "" if it has none.
func nameOf(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.Message() == nil {
		return ""
	}
	m := v.Message()
	for _, name := range []protoreflect.Name{"name", "key"} {
		if n := m.Descriptor().Fields().ByName(name); n != nil && n.Kind() == protoreflect.StringKind && !n.IsList() {
			return m.Get(n).String()
		}
	}
	for _, path := range [][]protoreflect.Name{{"endpoint", "address"}, {"locality"}} { // of endpoints, and groups of them
		if s := textAt(m, path); s != "" {
			return s
		}
	}
	return ""
}

// textAt identifies the message at a path of fields, "" if there is none.
func textAt(m protoreflect.Message, path []protoreflect.Name) string {
	for _, name := range path {
		f := m.Descriptor().Fields().ByName(name)
		if f == nil || f.Message() == nil || f.IsList() || f.IsMap() || !m.Has(f) {
			return ""
		}
		m = m.Get(f).Message()
	}
	b, _ := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m.Interface())
	return string(b)
}
