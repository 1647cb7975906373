package csds

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/fanout"
	"xdsrelay/relay/redact"
)

// matcher decides by node which configs are asked for.
type matcher struct {
	any []nodeMatcher // empty for all nodes
}

// nodeMatcher is what one node matcher asks for, all of it.
type nodeMatcher struct {
	id       func(string) bool // nil for any
	metadata []func(*structpb.Struct) bool
}

// newMatcher takes the matchers of a request, of which one has to match.
func newMatcher(in []*matcherv3.NodeMatcher) (*matcher, error) {
	m := &matcher{}
	for i, one := range in {
		var n nodeMatcher
		if one.GetNodeId() != nil {
			id, err := textMatcher(one.GetNodeId())
			if err != nil {
				return nil, fmt.Errorf("node_matchers[%d].node_id: %w", i, err)
			}
			n.id = id
		}
		for j, s := range one.GetNodeMetadatas() {
			f, err := structMatcher(s)
			if err != nil {
				return nil, fmt.Errorf("node_matchers[%d].node_metadatas[%d]: %w", i, j, err)
			}
			n.metadata = append(n.metadata, f)
		}
		m.any = append(m.any, n)
	}
	return m, nil
}

// client reports whether a client is asked for. Its Node is read only if need be,
// and without what is not shown of it: who may ask often could else guess that.
func (m *matcher) client(c fanout.Client) bool {
	return m.matches(c.ID(), func() *structpb.Struct { return redact.Node(c.Node()).GetMetadata() })
}

// node reports whether a node is asked for.
func (m *matcher) node(n *corev3.Node) bool {
	return m.matches(n.GetId(), func() *structpb.Struct { return redact.Node(n).GetMetadata() })
}

func (m *matcher) matches(id string, metadata func() *structpb.Struct) bool {
	if len(m.any) == 0 {
		return true
	}
	for _, n := range m.any {
		if n.matches(id, metadata) {
			return true
		}
	}
	return false
}

func (n *nodeMatcher) matches(id string, metadata func() *structpb.Struct) bool {
	if n.id != nil && !n.id(id) {
		return false
	}
	if len(n.metadata) == 0 {
		return true
	}
	m := metadata()
	for _, f := range n.metadata {
		if !f(m) {
			return false
		}
	}
	return true
}

// maxPattern bounds a regular expression, in bytes: what it compiles to may be
// much larger.
const maxPattern = 1 << 10

// textMatcher makes a function of a string matcher.
func textMatcher(in *matcherv3.StringMatcher) (func(string) bool, error) {
	fold := func(s string) string { return s }
	if in.GetIgnoreCase() {
		fold = strings.ToLower
	}
	partly := func(part string, has func(s, part string) bool) (func(string) bool, error) {
		if part == "" {
			return nil, errors.New("an empty text to match by prefix, suffix or contains, expected some")
		}
		part = fold(part)
		return func(s string) bool { return has(fold(s), part) }, nil
	}
	switch p := in.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		want := fold(p.Exact)
		return func(s string) bool { return fold(s) == want }, nil
	case *matcherv3.StringMatcher_Prefix:
		return partly(p.Prefix, strings.HasPrefix)
	case *matcherv3.StringMatcher_Suffix:
		return partly(p.Suffix, strings.HasSuffix)
	case *matcherv3.StringMatcher_Contains:
		return partly(p.Contains, strings.Contains)
	case *matcherv3.StringMatcher_SafeRegex:
		pattern := p.SafeRegex.GetRegex()
		if pattern == "" || len(pattern) > maxPattern {
			return nil, fmt.Errorf("a regular expression of %d bytes, expected 1 to %d", len(pattern), maxPattern)
		}
		if _, err := regexp.Compile(pattern); err != nil { // on its own, lest it close the group
			return nil, err
		}
		re, err := regexp.Compile(`^(?:` + pattern + `)$`) // the whole text has to match
		if err != nil {
			return nil, err
		}
		return re.MatchString, nil
	}
	return nil, errors.New("expected exact, prefix, suffix, contains or safe_regex")
}

// structMatcher makes a function of a matcher of metadata: the value at a path
// has to match.
func structMatcher(in *matcherv3.StructMatcher) (func(*structpb.Struct) bool, error) {
	if len(in.GetPath()) == 0 {
		return nil, errors.New("expected a path")
	}
	value, err := valueMatcher(in.GetValue(), 0)
	if err != nil {
		return nil, err
	}
	return func(s *structpb.Struct) bool {
		v := structpb.NewStructValue(s)
		for _, segment := range in.GetPath() {
			var ok bool
			if v, ok = v.GetStructValue().GetFields()[segment.GetKey()]; !ok {
				return false
			}
		}
		return value(v)
	}, nil
}

// maxDepth bounds how deep value matchers are nested.
const maxDepth = 16

// valueMatcher makes a function of a value matcher.
func valueMatcher(in *matcherv3.ValueMatcher, depth int) (func(*structpb.Value) bool, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("matchers nested deeper than %d", maxDepth)
	}
	switch p := in.GetMatchPattern().(type) {
	case *matcherv3.ValueMatcher_NullMatch_:
		return isKind[*structpb.Value_NullValue], nil
	case *matcherv3.ValueMatcher_BoolMatch:
		return func(v *structpb.Value) bool {
			b, ok := v.GetKind().(*structpb.Value_BoolValue)
			return ok && b.BoolValue == p.BoolMatch
		}, nil
	case *matcherv3.ValueMatcher_DoubleMatch:
		return numberMatcher(p.DoubleMatch)
	case *matcherv3.ValueMatcher_StringMatch:
		text, err := textMatcher(p.StringMatch)
		return func(v *structpb.Value) bool {
			return isKind[*structpb.Value_StringValue](v) && text(v.GetStringValue())
		}, err
	case *matcherv3.ValueMatcher_PresentMatch:
		return func(v *structpb.Value) bool { return p.PresentMatch && isPrimitive(v) }, nil
	case *matcherv3.ValueMatcher_ListMatch:
		one, err := valueMatcher(p.ListMatch.GetOneOf(), depth+1)
		return func(v *structpb.Value) bool { return slices.ContainsFunc(v.GetListValue().GetValues(), one) }, err
	case *matcherv3.ValueMatcher_OrMatch:
		var all []func(*structpb.Value) bool
		for _, m := range p.OrMatch.GetValueMatchers() {
			f, err := valueMatcher(m, depth+1)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return func(v *structpb.Value) bool {
			return slices.ContainsFunc(all, func(f func(*structpb.Value) bool) bool { return f(v) })
		}, nil
	}
	return nil, errors.New("expected null_match, double_match, string_match, bool_match, present_match, list_match or or_match")
}

func numberMatcher(in *matcherv3.DoubleMatcher) (func(*structpb.Value) bool, error) {
	var fits func(float64) bool
	switch p := in.GetMatchPattern().(type) {
	case *matcherv3.DoubleMatcher_Exact:
		fits = func(n float64) bool { return n == p.Exact }
	case *matcherv3.DoubleMatcher_Range:
		fits = func(n float64) bool { return n >= p.Range.GetStart() && n < p.Range.GetEnd() }
	default:
		return nil, errors.New("double_match: expected exact or range")
	}
	return func(v *structpb.Value) bool {
		return isKind[*structpb.Value_NumberValue](v) && fits(v.GetNumberValue())
	}, nil
}

func isKind[K any](v *structpb.Value) bool {
	_, ok := v.GetKind().(K)
	return ok
}

func isPrimitive(v *structpb.Value) bool {
	switch v.GetKind().(type) {
	case nil, *structpb.Value_StructValue, *structpb.Value_ListValue:
		return false
	}
	return true
}
