package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest/property"
)

const (
	lds = "type.googleapis.com/envoy.config.listener.v3.Listener"
	cds = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	eds = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
)

// Values are few, so that accidents are likely, and hold nothing that keys are joined by.
var (
	values   = rapid.SampledFrom([]string{"a", "b", "ab", "a-1", "b-2", "web-17"})
	patterns = rapid.SampledFrom([]string{"^a", "-[0-9]+$", ".*", "b", `^(\w+)-\d$`, "(?P<name>[a-z]+)-?"})
	urls     = rapid.SampledFrom([]string{lds, cds, eds})
	replaces = rapid.SampledFrom([]string{"", "$1", "${1}x", "$name", "$$", `\`, "${x", "$0-", "$1x"})
)

func drawText(t *rapid.T) obj {
	if rapid.Bool().Draw(t, "exact") {
		return obj{"exact_match": values.Draw(t, "value")}
	}
	return obj{"regex_match": patterns.Draw(t, "pattern")}
}

func drawPath(t *rapid.T) list {
	if rapid.Bool().Draw(t, "deep") {
		return list{obj{"key": "m"}, obj{"key": "x.y"}}
	}
	return list{obj{"key": "k"}}
}

func drawMatch(t *rapid.T, depth int) obj {
	kinds := []string{"any", "type", "type", "node", "node"}
	if depth > 0 {
		kinds = append(kinds, "and", "or", "not")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "match") {
	case "any":
		return obj{"any_match": true}
	case "type":
		return obj{"request_type_match": obj{"types": list{urls.Draw(t, "url"), urls.Draw(t, "url")}}}
	case "and":
		return obj{"and_match": obj{"rules": list{drawMatch(t, depth-1), drawMatch(t, depth-1)}}}
	case "or":
		return obj{"or_match": obj{"rules": list{drawMatch(t, depth-1), drawMatch(t, depth-1)}}}
	case "not":
		return obj{"not_match": drawMatch(t, depth-1)}
	}
	node := obj{}
	switch rapid.IntRange(0, 4).Draw(t, "of the node") {
	case 0:
		node["id_match"] = drawText(t)
	case 1:
		node["cluster_match"] = drawText(t)
	case 2:
		node["locality_match"] = obj{"region": drawText(t), "zone": drawText(t)}
	case 3:
		node["node_metadata_match"] = obj{"path": drawPath(t), "match": obj{"string_match": drawText(t)}}
	case 4:
		node["node_metadata_match"] = obj{"path": drawPath(t), "match": obj{"bool_match": obj{"value_match": rapid.Bool().Draw(t, "bool")}}}
	}
	return obj{"request_node_match": node}
}

func drawAction(t *rapid.T) obj {
	if rapid.Bool().Draw(t, "whole") {
		return obj{"exact": true}
	}
	return obj{"regex_action": obj{"pattern": patterns.Draw(t, "pattern"), "replace": replaces.Draw(t, "replace")}}
}

func drawResult(t *rapid.T, depth int) obj {
	switch rapid.IntRange(0, 6+depth).Draw(t, "result") {
	case 0:
		return obj{"string_fragment": values.Draw(t, "constant")}
	case 1:
		return obj{"resource_names_fragment": obj{"element": 0, "action": obj{"exact": true}}}
	case 2:
		return obj{"request_node_fragment": obj{"locality_action": obj{"region_action": drawAction(t), "zone_action": drawAction(t)}}}
	case 3:
		return obj{"request_node_fragment": obj{"node_metadata_action": obj{"path": drawPath(t), "action": drawAction(t)}}}
	case 4, 5:
		return obj{"request_node_fragment": obj{"cluster_action": drawAction(t)}}
	case 6:
		return obj{"request_node_fragment": obj{"id_action": drawAction(t)}}
	}
	return obj{"and_result": obj{"result_predicates": list{drawResult(t, 0), drawResult(t, 0)}}}
}

func drawRules(t *rapid.T) obj {
	var fragments list
	for range rapid.IntRange(1, 3).Draw(t, "fragments") {
		var rules list
		for range rapid.IntRange(1, 2).Draw(t, "rules") {
			rules = append(rules, obj{"match": drawMatch(t, 2), "result": drawResult(t, 1)})
		}
		fragments = append(fragments, obj{"rules": rules})
	}
	return obj{"fragments": fragments}
}

func drawNode(t *rapid.T) *corev3.Node {
	n := &corev3.Node{Id: values.Draw(t, "id"), Cluster: values.Draw(t, "cluster"),
		Locality: &corev3.Locality{Region: values.Draw(t, "region"), Zone: values.Draw(t, "zone")}}
	n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	if rapid.Bool().Draw(t, "k") {
		n.Metadata.Fields["k"] = structpb.NewStringValue(values.Draw(t, "value of k"))
	}
	inner := rapid.SampledFrom([]*structpb.Value{
		structpb.NewBoolValue(true), structpb.NewBoolValue(false), structpb.NewNumberValue(1), structpb.NewStringValue("a"),
	}).Draw(t, "inner")
	switch rapid.IntRange(0, 2).Draw(t, "m") {
	case 0:
		n.Metadata.Fields["m"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"x.y": inner}})
	case 1:
		n.Metadata.Fields["m"] = inner
	}
	return n
}

// seen is what xds-relay makes of a client: its key for each type, in two forms.
type seen struct {
	served       bool // for one type at least
	refused      bool // for one type at least, since a field is empty
	exact, joint string
}

func look(rules obj, n *corev3.Node) (s seen) {
	for _, url := range []string{lds, cds, eds, "type.googleapis.com/other"} {
		parts, err := modelKey(rules, request{url, []string{"*"}, n})
		s.refused = s.refused || errors.Is(err, errRefused)
		s.served = s.served || err == nil
		s.exact += fmt.Sprintf("%s %v\n", told(parts), err)
		s.joint += fmt.Sprintf("%q %v\n", strings.Join(parts, "_"), err)
	}
	return s
}

// TestClientsShareKeysAsInXdsRelay: among clients that xds-relay serves, those that it
// gives equal keys for every type share a key, and only those whose keys look equal.
// (Its keys forget where their parts begin, and two may look equal for that reason.)
func TestClientsShareKeysAsInXdsRelay(t *testing.T) {
	apart, together := 0, 0
	property.CheckUntil(t, func() bool { return apart >= 50 && together >= 50 }, func(rt *rapid.T) {
		rules := drawRules(rt)
		data, err := json.Marshal(rules)
		if err != nil {
			rt.Fatal(err)
		}
		res, err := Translate(File{"rules", data})
		if err != nil && strings.Contains(err.Error(), "no rule matches any request") {
			if s := look(rules, drawNode(rt)); s.served {
				rt.Fatalf("%s\nserves\n%s", data, s.joint)
			}
			return
		}
		if err != nil {
			rt.Fatalf("%s: %v", data, err)
		}
		cfg, err := config.Load(config.Input{File: "result", Data: res.Text, WithoutUpstream: true})
		if err != nil {
			rt.Fatalf("%s\nbecame\n%s\n%v", data, res.Text, err)
		}
		compiled, err := aggregation.Compile(cfg.Aggregation.Rules, aggregation.Options{})
		if err != nil {
			rt.Fatal(err)
		}
		type client struct {
			seen
			key aggregation.Key
		}
		var clients []client
		for range 6 {
			n := drawNode(rt)
			c := client{seen: look(rules, n)}
			if c.refused {
				continue
			}
			group, err := compiled.Resolve(n, aggregation.Peer{})
			if c.served != (err == nil) {
				rt.Fatalf("%s\nbecame\n%s\nof %v xds-relay says\n%sand the new rules %v %v", data, res.Text, n, c.joint, group.Key, err)
			}
			if c.served {
				c.key = group.Key
				clients = append(clients, c)
			}
		}
		for i, a := range clients {
			for _, b := range clients[:i] {
				if a.exact == b.exact && a.key != b.key || a.key == b.key && a.joint != b.joint {
					rt.Fatalf("%s\nbecame\n%s\nxds-relay has\n%sand\n%sthe new keys are %s and %s", data, res.Text, a.joint, b.joint, a.key, b.key)
				}
				if a.key == b.key {
					together++
				} else {
					apart++
				}
			}
		}
	})
}
