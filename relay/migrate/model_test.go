package migrate

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// obj and list are JSON, which is also YAML.
type (
	obj  = map[string]any
	list = []any
)

// request is what xds-relay makes a key of.
type request struct {
	url   string
	names []string
	node  *corev3.Node
}

var (
	errRefused = errors.New("refused: a field is empty")
	errNoKey   = errors.New("no rule adds to the key")
)

// modelKey is the key that xds-relay gives a request, in parts: those of a fragment
// follow one another, whichever rules they come from. It goes the way of its mapper.
func modelKey(rules obj, r request) (parts []string, err error) {
	for _, f := range rules["fragments"].(list) {
		for _, rule := range f.(obj)["rules"].(list) {
			matched, err := modelMatch(rule.(obj)["match"].(obj), r)
			if err != nil {
				return nil, err
			}
			if !matched {
				continue
			}
			text, err := modelResult(rule.(obj)["result"].(obj), r)
			if err != nil {
				return nil, err
			}
			parts = append(parts, text)
		}
	}
	if len(parts) == 0 {
		return nil, errNoKey
	}
	return parts, nil
}

func modelMatch(m obj, r request) (bool, error) {
	for name, v := range m {
		switch name {
		case "any_match":
			return true, nil
		case "request_type_match":
			for _, url := range v.(obj)["types"].(list) {
				if url == r.url {
					return true, nil
				}
			}
			return false, nil
		case "not_match":
			is, err := modelMatch(v.(obj), r)
			return !is, err
		case "and_match", "or_match":
			for _, of := range v.(obj)["rules"].(list) {
				is, err := modelMatch(of.(obj), r)
				if err != nil || is == (name == "or_match") {
					return is, err
				}
			}
			return name == "and_match", nil
		case "request_node_match":
			return modelNode(v.(obj), r.node)
		}
	}
	panic("no match")
}

func modelNode(m obj, n *corev3.Node) (bool, error) {
	for name, v := range m {
		switch name {
		case "id_match":
			return modelText(v.(obj), n.GetId())
		case "cluster_match":
			return modelText(v.(obj), n.GetCluster())
		case "locality_match":
			if n.GetLocality() == nil {
				return false, errRefused
			}
			all := true
			for _, f := range []struct{ name, value string }{
				{"region", n.Locality.Region}, {"zone", n.Locality.Zone}, {"sub_zone", n.Locality.SubZone},
			} {
				if with, ok := v.(obj)[f.name]; ok {
					is, err := modelText(with.(obj), f.value)
					if err != nil {
						return false, err
					}
					all = all && is
				}
			}
			return all, nil
		case "node_metadata_match":
			return modelMetadata(v.(obj), n.GetMetadata())
		}
	}
	panic("no node match")
}

func modelText(m obj, value string) (bool, error) {
	if value == "" {
		return false, errRefused
	}
	if exact, ok := m["exact_match"]; ok {
		return exact == value && value != "", nil
	}
	pattern := m["regex_match"].(string)
	return pattern != "" && regexp.MustCompile(pattern).MatchString(value), nil
}

func modelMetadata(m obj, md *structpb.Struct) (bool, error) {
	if md == nil {
		return false, errRefused
	}
	value := structpb.NewStructValue(md)
	for _, step := range m["path"].(list) {
		inner, ok := value.GetStructValue().GetFields()[step.(obj)["key"].(string)]
		if !ok {
			return false, nil
		}
		value = inner
	}
	how := m["match"].(obj)
	if text, ok := how["string_match"]; ok {
		return modelText(text.(obj), value.GetStringValue())
	}
	return how["bool_match"].(obj)["value_match"] == value.GetBoolValue(), nil
}

func modelResult(res obj, r request) (string, error) {
	for name, v := range res {
		switch name {
		case "string_fragment":
			return v.(string), nil
		case "resource_names_fragment":
			return r.names[0], nil
		case "and_result":
			text := ""
			for _, of := range v.(obj)["result_predicates"].(list) {
				more, err := modelResult(of.(obj), r)
				if err != nil {
					return "", err
				}
				text += more
			}
			return text, nil
		case "request_node_fragment":
			return modelNodeResult(v.(obj), r.node)
		}
	}
	panic("no result")
}

func modelNodeResult(m obj, n *corev3.Node) (string, error) {
	for name, v := range m {
		switch name {
		case "id_action":
			return modelAction(v.(obj), n.GetId())
		case "cluster_action":
			return modelAction(v.(obj), n.GetCluster())
		case "locality_action":
			var parts []string
			for _, f := range []struct{ name, value string }{
				{"region_action", n.GetLocality().GetRegion()}, {"zone_action", n.GetLocality().GetZone()},
			} {
				if action, ok := v.(obj)[f.name]; ok {
					text, err := modelAction(action.(obj), f.value)
					if err != nil {
						return "", err
					}
					parts = append(parts, text)
				}
			}
			return strings.Join(parts, "|"), nil
		case "node_metadata_action":
			value := structpb.NewStructValue(n.GetMetadata())
			for _, step := range v.(obj)["path"].(list) {
				inner, ok := value.GetStructValue().GetFields()[step.(obj)["key"].(string)]
				if !ok {
					return "", errRefused
				}
				value = inner
			}
			if _, ok := value.GetKind().(*structpb.Value_StringValue); !ok {
				return "", errRefused // an empty text there, and refused by the new rules
			}
			return modelAction(v.(obj)["action"].(obj), value.GetStringValue())
		}
	}
	panic("no node result")
}

func modelAction(a obj, value string) (string, error) {
	if how, ok := a["regex_action"]; ok {
		re := regexp.MustCompile(how.(obj)["pattern"].(string))
		value = re.ReplaceAllString(value, how.(obj)["replace"].(string))
	}
	if value == "" {
		return "", errRefused
	}
	return value, nil
}

// told writes parts so that different ones are different texts.
func told(parts []string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(strconv.Quote(p))
	}
	return b.String()
}
