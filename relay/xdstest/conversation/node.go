package conversation

import (
	"fmt"
	"slices"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// metadata is one text under a key.
func metadata(text string) map[string]*structpb.Struct {
	return map[string]*structpb.Struct{"script": {Fields: map[string]*structpb.Value{"text": structpb.NewStringValue(text)}}}
}

// nodeChange is what a script says of a node, field by field.
type nodeChange []func(*corev3.Node)

// parseNode reads words like id=x, cluster=y, feature=z, meta.k=v.
func parseNode(words []word) (nodeChange, error) {
	var change nodeChange
	for _, w := range words {
		key, value, ok := w.split()
		if !ok || w.braces {
			return nil, fmt.Errorf("%s is not FIELD=VALUE", w)
		}
		meta, isMeta := strings.CutPrefix(key, "meta.")
		param, isParam := strings.CutPrefix(key, "param.")
		switch {
		case isMeta:
			change = append(change, func(n *corev3.Node) {
				if n.Metadata == nil {
					n.Metadata = &structpb.Struct{Fields: make(map[string]*structpb.Value)}
				}
				n.Metadata.Fields[meta] = structpb.NewStringValue(value)
			})
		case isParam:
			typ, name, ok := strings.Cut(param, ".")
			url, err := typeURL(word{text: typ, equals: -1})
			if !ok || err != nil {
				return nil, fmt.Errorf("%s: a dynamic parameter is param.TYPE.NAME=VALUE", w)
			}
			change = append(change, func(n *corev3.Node) { setParam(n, url, name, value) })
		case nodeFields[key] != nil:
			change = append(change, func(n *corev3.Node) { nodeFields[key](n, value) })
		default:
			return nil, fmt.Errorf("a node has no field %q here", key)
		}
	}
	return change, nil
}

// nodeFields are the fields that a script can set. It is never changed.
var nodeFields = map[string]func(*corev3.Node, string){
	"id":      func(n *corev3.Node, v string) { n.Id = v },
	"cluster": func(n *corev3.Node, v string) { n.Cluster = v },
	"agent":   func(n *corev3.Node, v string) { n.UserAgentName = v },
	"feature": func(n *corev3.Node, v string) { n.ClientFeatures = append(n.ClientFeatures, v) },
	"region":  func(n *corev3.Node, v string) { locality(n).Region = v },
	"zone":    func(n *corev3.Node, v string) { locality(n).Zone = v },
}

func locality(n *corev3.Node) *corev3.Locality {
	if n.Locality == nil {
		n.Locality = &corev3.Locality{}
	}
	return n.Locality
}

func setParam(n *corev3.Node, typeURL, name, value string) {
	if n.DynamicParameters == nil {
		n.DynamicParameters = make(map[string]*xdscorev3.ContextParams)
	}
	p := n.DynamicParameters[typeURL]
	if p == nil {
		p = &xdscorev3.ContextParams{Params: make(map[string]string)}
		n.DynamicParameters[typeURL] = p
	}
	p.Params[name] = value
}

// applied is the node with the changes made to a copy.
func (c nodeChange) applied(n *corev3.Node) *corev3.Node {
	n = proto.CloneOf(n)
	for _, change := range c {
		change(n)
	}
	return n
}

// nodeCheck is FIELD=VALUE words that a node must fulfil, and FIELD!=VALUE words
// that it must not.
type nodeCheck []struct {
	text  string
	not   bool
	holds func(*corev3.Node) bool
}

func parseNodeCheck(words []word) (nodeCheck, error) {
	var checks nodeCheck
	if len(words) == 0 {
		return nil, fmt.Errorf("which fields of the node?")
	}
	for _, w := range words {
		key, value, ok := w.split()
		key, not := strings.CutSuffix(key, "!")
		if !ok || w.braces {
			return nil, fmt.Errorf("%s is neither FIELD=VALUE nor FIELD!=VALUE", w)
		}
		meta, isMeta := strings.CutPrefix(key, "meta.")
		get := nodeReads[key]
		switch {
		case isMeta:
			get = func(n *corev3.Node) []string { return []string{n.GetMetadata().GetFields()[meta].GetStringValue()} }
		case get == nil:
			return nil, fmt.Errorf("a node has no field %q here", key)
		}
		checks = append(checks, struct {
			text  string
			not   bool
			holds func(*corev3.Node) bool
		}{w.String(), not, func(n *corev3.Node) bool { return slices.Contains(get(n), value) }})
	}
	return checks, nil
}

// nodeReads are the fields that a script can look at. It is never changed.
var nodeReads = map[string]func(*corev3.Node) []string{
	"id":      func(n *corev3.Node) []string { return []string{n.GetId()} },
	"cluster": func(n *corev3.Node) []string { return []string{n.GetCluster()} },
	"agent":   func(n *corev3.Node) []string { return []string{n.GetUserAgentName()} },
	"feature": (*corev3.Node).GetClientFeatures,
	"region":  func(n *corev3.Node) []string { return []string{n.GetLocality().GetRegion()} },
	"zone":    func(n *corev3.Node) []string { return []string{n.GetLocality().GetZone()} },
}

func (c nodeCheck) check(n *corev3.Node) error {
	for _, one := range c {
		if one.holds(n) == one.not {
			return fmt.Errorf("the node does not fulfil %s: %v", one.text, n)
		}
	}
	return nil
}
