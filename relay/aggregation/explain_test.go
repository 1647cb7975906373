package aggregation

import (
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

func TestExplain(t *testing.T) {
	rs := mustCompile(t,
		Rule{Name: "edge", Match: `node.metadata.env == "edge"`, Key: `"edge"`},
		Rule{Name: "zones", Match: "has(node.locality)", Key: "node.cluster +\n  '/' + node.locality.zone", Rollout: "standard"},
		Rule{Name: "rest", Key: "node.cluster"},
	)
	ex := rs.Explain(testNode(t), Peer{})
	want, _ := rs.Resolve(testNode(t), Peer{})
	if ex.Refusal != nil || ex.Result.Key != want.Key || ex.Result.Rollout != "standard" || ex.Rules[1].Rollout != "standard" || ex.Rules[2].Rollout != "" {
		t.Fatalf("explains %+v, resolves %+v", ex, want)
	}
	got := ex.String()
	for _, line := range []string{
		`edge      no match     node.metadata.env == "edge"  "edge"                                   (none)`,
		`zones     chosen       has(node.locality)           node.cluster + '/' + node.locality.zone  cluster, locality.zone`,
		`rest      not reached  (all clients)                node.cluster                             cluster`,
		"key: web/eu-1~", "\nrollout: standard\n", "Node for the control plane: {\n  \"id\": \"xdsrelay/web/eu-1~", `"zone": "eu-1"`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
	if strings.Contains(got, "eu\"") || strings.Contains(got, "prod") {
		t.Errorf("shows what is not passed:\n%s", got)
	}
}

func TestExplainRefusals(t *testing.T) {
	rs := mustCompile(t,
		Rule{Name: "a", Match: `node.metadata.env == "x"`, Key: `"x"`},
		Rule{Name: "b", Match: `node.cluster == "b"`, Key: `node.metadata.none`})
	for _, tc := range []struct {
		node *corev3.Node
		want []Outcome
		text string
	}{
		{&corev3.Node{Id: "i"}, []Outcome{Failed, NotReached}, "refused: rule a: match: no such key: env (InvalidArgument)"},
		{testNode(t), []Outcome{NoMatch, NoMatch}, "refused: no aggregation rule matches this client (PermissionDenied)"},
		{testNode(t, func(n *corev3.Node) { n.Cluster = "b" }), []Outcome{NoMatch, Failed}, "refused: rule b: key: no such key: none (InvalidArgument)"},
		{nil, []Outcome{NotReached, NotReached}, "refused: the first request has no node id (InvalidArgument)"},
	} {
		ex := rs.Explain(tc.node, Peer{})
		if len(ex.Rules) != 2 || ex.Rules[0].Outcome != tc.want[0] || ex.Rules[1].Outcome != tc.want[1] {
			t.Errorf("%v: outcomes %+v", tc.node, ex.Rules)
		}
		if !strings.Contains(ex.String(), tc.text) {
			t.Errorf("no %q in\n%s", tc.text, ex)
		}
	}
}

func TestParseNodeJSON(t *testing.T) {
	for _, tc := range []struct{ name, in, id, err string }{
		{"node", `{"id":"a","user_agent_name":"x"}`, "a", ""},
		{"camel case", `{"id":"a","userAgentName":"x"}`, "a", ""},
		{"gRPC bootstrap", `{"xds_servers":[{"server_uri":"x"}],"node":{"id":"b","locality":{"zone":"z"}}}`, "b", ""},
		{"features of gRPC", `{"xds_servers":[{"server_uri":"x"}],"node":{"id":"b","client_features":["x"]}}`, "b", ""},
		{"unknown fields", `{"id":"a","new_field":{"x":1}}`, "a", ""},
		{"no field known", `{"name":"a"}`, "", `node file: has no field of a Node; expected {"id"`},
		{"empty node", `{"node":{}}`, "", `node file, field "node": has no field`},
		{"node is no object", `{"node":"a"}`, "", `node file, field "node": expected an object`},
		{"null", `null`, "", "is null, expected a JSON object"},
		{"list", `[]`, "", "expected a JSON object"},
		{"empty", ``, "", "expected a JSON object"},
		{"syntax", "{\n  \"id\": ,\n}", "", "(line 2, column 9)"},
		{"wrong type", `{"id":3}`, "", `invalid value for string field id: 3`},
	} {
		node, err := ParseNodeJSON([]byte(tc.in))
		if tc.err == "" {
			if err != nil || node.GetId() != tc.id {
				t.Errorf("%s: %v, %v", tc.name, node, err)
			}
			grpc := slices.Contains(node.GetClientFeatures(), "envoy.lb.does_not_support_overprovisioning")
			if grpc != strings.Contains(tc.in, "xds_servers") {
				t.Errorf("%s: features %q", tc.name, node.GetClientFeatures())
			}
		} else if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "\u00a0", " "), tc.err) {
			t.Errorf("%s: error %v, want %q", tc.name, err, tc.err)
		}
	}
}
