package resource

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Tags of ResourceLocator and DynamicParameterConstraints.
const (
	locatorName, locatorParams             = 1<<3 | 2, 2<<3 | 2
	constraintSingle, constraintAll        = 1<<3 | 2, 3<<3 | 2
	constraintKey, constraintValue, inList = 1<<3 | 2, 2<<3 | 2, 1<<3 | 2
)

// Locator requests a variant of a resource: the one whose constraints match its parameters. It is
// not the resource of the bare name (G9).
// https://github.com/cncf/xds/blob/main/proposals/TP2-dynamically-generated-cacheable-xds-resources.md
type Locator struct {
	Name string
	// Params are the dynamic parameters, sorted, each key once.
	Params []Param
}

func (r *Request) addLocator(b []byte) error {
	var l Locator
	err := eachField(b, func(f field) (err error) {
		switch f.tag {
		case locatorName:
			l.Name, err = text("a name in resource_locators", f.bytes)
		case locatorParams:
			var p Param
			err = eachField(f.bytes, func(f field) (err error) {
				switch f.tag {
				case mapKey:
					p.Key, err = text("a key in dynamic_parameters", f.bytes)
				case mapValue:
					p.Value, err = text("a value in dynamic_parameters", f.bytes)
				}
				return err
			})
			l.Params = append(l.Params, p)
		}
		return err
	})
	slices.Reverse(l.Params) // of equal keys the last counts, as in any map
	slices.SortStableFunc(l.Params, func(a, b Param) int { return cmp.Compare(a.Key, b.Key) })
	l.Params = slices.CompactFunc(l.Params, func(a, b Param) bool { return a.Key == b.Key })
	r.Locators = append(r.Locators, l)
	return err
}

// NewError returns an entry of resource_errors about the variants that l requests.
func (l Locator) NewError(code int32, message string) About {
	a := NewError(l.Name, code, message)
	if len(l.Params) == 0 {
		return a
	}
	constraints := l.constraints()
	name := appendString(nil, nameName, l.Name)
	name = protowire.AppendVarint(name, nameConstraints)
	name = protowire.AppendBytes(name, constraints)
	// The constraints are prepended to the entry in a: protobuf merges the two names, and the name
	// itself is the same.
	raw := protowire.AppendVarint(nil, errorName)
	raw = protowire.AppendBytes(raw, name)
	a.Raw, a.Variant = append(raw, a.Raw...), string(constraints)
	return a
}

// constraints returns encoded DynamicParameterConstraints that only the parameters of l match.
func (l Locator) constraints() (b []byte) {
	single := func(p Param) []byte {
		c := appendString(nil, constraintKey, p.Key)
		c = protowire.AppendVarint(c, constraintValue) // of a oneof: written even if empty
		c = protowire.AppendString(c, p.Value)
		b := protowire.AppendVarint(nil, constraintSingle)
		return protowire.AppendBytes(b, c)
	}
	if len(l.Params) == 1 {
		return single(l.Params[0])
	}
	for _, p := range l.Params {
		b = protowire.AppendVarint(b, inList)
		b = protowire.AppendBytes(b, single(p))
	}
	return protowire.AppendBytes(protowire.AppendVarint(nil, constraintAll), b)
}
