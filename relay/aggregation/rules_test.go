package aggregation

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// testNode is an Envoy of a usual shape; edit changes it.
func testNode(t testing.TB, edit ...func(*corev3.Node)) *corev3.Node {
	t.Helper()
	md, err := structpb.NewStruct(map[string]any{
		"env": "prod", "team": map[string]any{"name": "core", "size": 4},
		"groups": []any{"a", "b"}, "istio.io/rev": "canary", "flag": true,
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &corev3.Node{
		Id: "c1", Cluster: "web", Metadata: md,
		Locality:      &corev3.Locality{Region: "eu", Zone: "eu-1"},
		UserAgentName: "envoy",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
			Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 33, Patch: 2},
		}},
		ClientFeatures: []string{"xds.config.resource-in-sotw"},
	}
	for _, e := range edit {
		e(n)
	}
	return n
}

func mustCompile(t testing.TB, rules ...Rule) *Rules {
	t.Helper()
	rs, err := Compile(rules, Options{UserAgentVersion: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// cutDigest replaces the digest in a key, so that tables stay readable.
func cutDigest(k Key) string {
	text, mark, ok := strings.Cut(string(k), "~")
	if ok && len(mark) >= 2*digestBytes && !strings.ContainsAny(mark[:2*digestBytes], "._g") {
		return text + "~DIGEST" + mark[2*digestBytes:]
	}
	return string(k)
}

// K4: the Node upstream holds the fields that the key is made of, and no other.
func TestKeyAndPassedFields(t *testing.T) {
	peer := Peer{Authenticated: true, SPIFFEID: "spiffe://corp/web"}
	for _, tc := range []struct {
		name, key string
		pass      []string
		wantKey   string
		want      string // the Node in text form, without what every Node has
	}{
		{"one field", `node.cluster`, nil, "web", `{"cluster":"web"}`},
		{"id", `node.id`, nil, "c1~id", `{"id":"c1"}`},
		{"zone", `node.locality.zone`, nil, "eu-1~locality.zone", `{"locality":{"zone":"eu-1"}}`},
		{"metadata", `node.metadata.env`, nil, "prod~metadata.env", `{"metadata":{"env":"prod"}}`},
		{"quoted metadata", `node.metadata["istio.io/rev"]`, nil, `canary~metadata["istio.io/rev"]`, `{"metadata":{"istio.io/rev":"canary"}}`},
		{"nested metadata", `node.metadata.team.name`, nil, "core~metadata.team.name", `{"metadata":{"team":{"name":"core"}}}`},
		{"constant", `"all"`, nil, "all~none", `{}`},
		{"peer", `peer.spiffe_id`, nil, "spiffe://corp/web~none", `{}`},
		{"concatenation", `node.cluster + "/" + node.locality.region`, nil, "web/eu~DIGEST", `{"cluster":"web","locality":{"region":"eu"}}`},
		{"function", `node.cluster.upperAscii()`, nil, "WEB~DIGEST", `{"cluster":"web"}`},
		{"condition flows not", `node.metadata.env == "prod" ? "p" : node.cluster`, nil, "p~DIGEST", `{"cluster":"web"}`},
		{"both branches flow", `has(node.metadata.env) ? node.metadata.env : node.cluster`, nil, "prod~DIGEST", `{"cluster":"web","metadata":{"env":"prod"}}`},
		{"list element", `node.metadata.groups[1]`, nil, "b~DIGEST", `{"metadata":{"groups":["a","b"]}}`},
		{"loop", `node.metadata.groups.map(g, g + node.cluster)[1]`, nil, "bweb~DIGEST", `{"cluster":"web","metadata":{"groups":["a","b"]}}`},
		{"dynamic index", `node.metadata[node.cluster == "web" ? "env" : "x"]`, nil, "prod~DIGEST",
			`{"metadata":{"env":"prod","flag":true,"groups":["a","b"],"istio.io/rev":"canary","team":{"name":"core","size":4}}}`},
		{"index of a field", `{"web": "w"}[node.cluster]`, nil, "w~DIGEST", `{"cluster":"web"}`},
		{"hidden behind dyn", `dyn(node.metadata).team.name`, nil, "core~DIGEST",
			`{"metadata":{"env":"prod","flag":true,"groups":["a","b"],"istio.io/rev":"canary","team":{"name":"core","size":4}}}`},
		{"build version", `string(node.user_agent_build_version.version.minor_number)`, nil, "33~DIGEST",
			`{"user_agent_build_version":{"version":{"major_number":1,"minor_number":33,"patch":2}}}`},
		{"absolute name", `.node.cluster`, nil, "web", `{"cluster":"web"}`},
		{"features do not flow", `node.client_features[0]`, nil, "xds.config.resource-in-sotw~none", `{}`},
		{"part of a field", `regex.replace(node.id, "[0-9]+$", "")`, nil, "c~DIGEST", `{"id":"c1"}`},
		{"pass", `node.cluster`, []string{"metadata.team", "locality.region", "user_agent_name"}, "web~DIGEST",
			`{"cluster":"web","locality":{"region":"eu"},"metadata":{"team":{"name":"core","size":4}},"user_agent_name":"envoy"}`},
		{"pass what is absent", `node.cluster`, []string{"locality.sub_zone", "metadata.nope.x"}, "web~DIGEST", `{"cluster":"web"}`},
		{"pass what the key has", `node.cluster`, []string{"cluster"}, "web", `{"cluster":"web"}`},
		{"pass quoted", `node.cluster`, []string{`metadata["istio.io/rev"]`}, "web~DIGEST", `{"cluster":"web","metadata":{"istio.io/rev":"canary"}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rs := mustCompile(t, Rule{Name: "r", Key: tc.key, PassFields: tc.pass})
			res, err := rs.Resolve(testNode(t), peer)
			if err != nil {
				t.Fatal(err)
			}
			if got := cutDigest(res.Key); got != tc.wantKey {
				t.Errorf("key %s, want %s", got, tc.wantKey)
			}
			want, err := parseAny(tc.want)
			if err != nil {
				t.Fatal(err)
			}
			if want.Id == "" {
				want.Id = "xdsrelay/" + string(res.Key)
			}
			if want.UserAgentName == "" {
				want.UserAgentName = "xdsrelay"
			}
			if want.UserAgentVersionType == nil {
				want.UserAgentVersionType = &corev3.Node_UserAgentVersion{UserAgentVersion: "1.2.3"}
			}
			want.ClientFeatures = []string{"xds.config.resource-in-sotw", "xds.config.supports-resource-ttl"} // C17
			if !proto.Equal(res.Node, want) {
				t.Errorf("upstream node\n %s\nwant\n %s", nodeJSON(res.Node), nodeJSON(want))
			}
		})
	}
}

func parseAny(s string) (*corev3.Node, error) {
	if s == "{}" {
		return &corev3.Node{}, nil
	}
	return ParseNodeJSON([]byte(s))
}

func TestFirstMatchWins(t *testing.T) {
	rs := mustCompile(t,
		Rule{Name: "edge", Match: `node.id.startsWith("edge-")`, Key: `"edge"`},
		Rule{Name: "known", Match: `peer.authenticated && "db" in peer.dns_names`, Key: `"db"`},
		Rule{Match: `node.cluster != ""`, Key: `node.cluster`},
	)
	for _, tc := range []struct {
		id, cluster string
		peer        Peer
		rule        string
	}{
		{"edge-1", "web", Peer{}, "edge"},
		{"x", "web", Peer{Authenticated: true, DNSNames: []string{"db"}}, "known"},
		{"x", "web", Peer{DNSNames: []string{"db"}}, "#3"},
	} {
		res, err := rs.Resolve(&corev3.Node{Id: tc.id, Cluster: tc.cluster}, tc.peer)
		if err != nil || res.Rule != tc.rule {
			t.Errorf("%+v: rule %q, error %v", tc, res.Rule, err)
		}
	}
	_, err := rs.Resolve(&corev3.Node{Id: "x"}, Peer{})
	wantRefusal(t, err, NoRule, codes.PermissionDenied, "no aggregation rule matches this client")
}

func wantRefusal(t *testing.T, err error, reason Reason, code codes.Code, text string) {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("error %v is no refusal", err)
	}
	if r.Reason != reason || status.Code(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got %s %s %q, want %s %s %q", r.Reason, status.Code(err), err, reason, code, text)
	}
}

func TestDefaultRule(t *testing.T) {
	res, err := mustCompile(t).Resolve(testNode(t), Peer{})
	if err != nil || res.Key != "web" || res.Rule != "default" {
		t.Fatalf("%+v, %v", res, err)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		rule   Rule
		node   *corev3.Node
		reason Reason
		text   string
	}{
		{"no node (B1)", DefaultRule(), nil, NoNodeID, "the first request has no node id"},
		{"no id (B1)", DefaultRule(), &corev3.Node{Cluster: "c"}, NoNodeID, "the first request has no node id"},
		{"missing metadata", Rule{Name: "X", Key: "node.metadata.env"}, &corev3.Node{Id: "a"}, RuleFailed, "rule X: key: no such key: env"},
		{"missing below", Rule{Name: "X", Key: "node.metadata.team.x"}, testNode(t), RuleFailed, "rule X: key: no such key: x"},
		{"failing match", Rule{Name: "X", Match: `node.metadata.nope == "1"`, Key: `"k"`}, testNode(t), RuleFailed, "rule X: match: no such key: nope"},
		{"key not a string", Rule{Name: "X", Key: "node.metadata.team"}, testNode(t), RuleFailed, "rule X: key: gives map, expected string"},
		{"match not a bool", Rule{Name: "X", Match: "node.metadata.env", Key: `"k"`}, testNode(t), RuleFailed, "rule X: match: gives string, expected bool"},
		{"empty key", Rule{Name: "X", Key: "node.cluster"}, &corev3.Node{Id: "a"}, EmptyKey, "rule X: key: is empty for this client"},
		{"control character", Rule{Name: "X", Key: "node.cluster"}, &corev3.Node{Id: "a", Cluster: "a\nb"}, BadKey, "U+000A"},
		{"text direction", Rule{Name: "X", Key: "node.cluster"}, &corev3.Node{Id: "a", Cluster: "a\u202eb"}, BadKey, "U+202E"},
		{"long key", Rule{Name: "X", Key: "node.cluster"}, &corev3.Node{Id: "a", Cluster: strings.Repeat("x", MaxKeyLen+1)}, BadKey, "513 bytes, expected at most 512"},
		{"long after escaping", Rule{Name: "X", Key: "node.cluster"}, &corev3.Node{Id: "a", Cluster: strings.Repeat("~", MaxKeyLen)}, BadKey, "1536 bytes with its marks"},
		{"long id", DefaultRule(), &corev3.Node{Id: strings.Repeat("x", MaxNodeName+1), Cluster: "c"}, BadNode, "the node id has 4097 bytes, expected at most 4096"},
		{"long cluster", Rule{Key: `"k"`}, &corev3.Node{Id: "a", Cluster: strings.Repeat("x", MaxNodeName+1)}, BadNode, "the node's cluster has 4097 bytes, expected at most 4096"},
		{"huge node", DefaultRule(), &corev3.Node{Id: "a", Cluster: strings.Repeat("x", MaxNodeBytes)}, BadNode, "bytes, expected at most 1048576"},
		{"many features", DefaultRule(), &corev3.Node{Id: "a", ClientFeatures: manyFeatures(maxFeatures + 1)}, BadNode, "more than 64 client features"},
		{"cost", Rule{Name: "X", Match: `node.client_features.exists(a, node.client_features.exists(b, a + b == "x"))`, Key: `"k"`},
			&corev3.Node{Id: "a", ClientFeatures: manyTranslated(2000)}, RuleFailed, "rule X: match: operation cancelled: actual cost limit exceeded"},
		{"cost of a long string", Rule{Name: "X", Key: `node.user_agent_name.replace("", "0123456789abcdef").replace("", "0123456789abcdef").replace("", "0123456789abcdef")`},
			&corev3.Node{Id: "a", UserAgentName: strings.Repeat("x", 500_000)}, RuleFailed, "rule X: key: operation cancelled: actual cost limit exceeded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := mustCompile(t, tc.rule).Resolve(tc.node, Peer{})
			wantRefusal(t, err, tc.reason, codes.InvalidArgument, tc.text)
			if strings.ContainsAny(err.Error(), "\n\u202e") {
				t.Errorf("unprintable: %q", err)
			}
		})
	}
}

func manyFeatures(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("f", i))
	}
	return out
}

func manyTranslated(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "xds.config.resource-in-sotw"
	}
	return out
}

func TestHasAsksFirst(t *testing.T) {
	rs := mustCompile(t,
		Rule{Name: "env", Match: "has(node.metadata.env)", Key: "node.metadata.env"},
		Rule{Name: "rest", Key: `"rest"`})
	for node, want := range map[*corev3.Node]string{testNode(t): "env", {Id: "a"}: "rest"} {
		if res, err := rs.Resolve(node, Peer{}); err != nil || res.Rule != want {
			t.Errorf("rule %q, error %v, want %s", res.Rule, err, want)
		}
	}
}

// K5: features that change payloads part groups and are announced upstream; those
// that the relay translates do neither.
func TestClientFeatures(t *testing.T) {
	const overprov, anyStruct = "envoy.lb.does_not_support_overprovisioning", "envoy.config.require-any-fields-contain-struct"
	resolve := func(features ...string) Result {
		t.Helper()
		res, err := mustCompile(t).Resolve(&corev3.Node{Id: "a", Cluster: "web", ClientFeatures: features}, Peer{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	for _, f := range []string{"xds.config.resource-in-sotw", "xds.config.supports-resource-in-sotw",
		"xds.config.supports-resource-ttl", "envoy.lrs.supports_send_all_clusters", ""} {
		if got := resolve(f); got.Key != "web" || len(got.Node.ClientFeatures) != 2 {
			t.Errorf("%q: key %s, announced %v", f, got.Key, got.Node.ClientFeatures)
		}
	}
	both := resolve(overprov, anyStruct, overprov)
	if both.Key != "web+any-struct+no-overprovisioning" {
		t.Errorf("key %s", both.Key)
	}
	if got := strings.Join(both.Node.ClientFeatures, " "); got != anyStruct+" "+overprov+" xds.config.resource-in-sotw xds.config.supports-resource-ttl" {
		t.Errorf("announced %s", got)
	}
	x, y := resolve("x", overprov), resolve("y", overprov)
	if x.Key == y.Key || !strings.HasPrefix(string(x.Key), "web+no-overprovisioning+x") {
		t.Errorf("keys %s and %s", x.Key, y.Key)
	}
	if a, b := resolve("any-struct"), resolve(anyStruct); a.Key == b.Key {
		t.Errorf("a feature takes the short name of another: %s", a.Key)
	}
}

// K6: seams, escapes and rules that give the same text from different fields.
func TestKeysThatMustDiffer(t *testing.T) {
	concat := mustCompile(t, Rule{Key: `node.cluster + "/" + node.locality.zone`})
	node := func(cluster, zone string) *corev3.Node {
		return &corev3.Node{Id: "i", Cluster: cluster, Locality: &corev3.Locality{Zone: zone}}
	}
	cluster, env := mustCompile(t), mustCompile(t, Rule{Key: "node.metadata.env"})
	prod := testNode(t)
	for _, tc := range []struct {
		name string
		a, b *Rules
		x, y *corev3.Node
	}{
		{"seam", concat, concat, node("a/b", "c"), node("a", "b/c")},
		{"same text of two fields", cluster, env, node("prod", ""), prod},
		{"spelt mark", cluster, env, node("prod~metadata.env", ""), prod},
		{"spelt feature", cluster, cluster, node("web+no-overprovisioning", ""),
			&corev3.Node{Id: "i", Cluster: "web", ClientFeatures: []string{"envoy.lb.does_not_support_overprovisioning"}}},
		{"spelt escape", cluster, cluster, node("a%7Eb", ""), node("a~b", "")},
		{"own name as user agent", cluster, mustCompile(t, Rule{Key: "node.cluster", PassFields: []string{"user_agent_name"}}), node("a", ""), node("a", "")},
	} {
		a, err1 := tc.a.Resolve(tc.x, Peer{})
		b, err2 := tc.b.Resolve(tc.y, Peer{})
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if a.Key == b.Key {
			t.Errorf("%s: both are %s", tc.name, a.Key)
		}
	}
}

func TestResolveLeavesNodeAloneAndIsConcurrent(t *testing.T) {
	rs := mustCompile(t, Rule{Key: `node.cluster + node.metadata.team.name`, PassFields: []string{"metadata.groups"}})
	node := testNode(t)
	before := proto.Clone(node)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				res, err := rs.Resolve(node, Peer{})
				if err != nil {
					t.Error(err)
					return
				}
				res.Node.Metadata.Fields["groups"].GetListValue().Values[0] = nil // ours alone
			}
		})
	}
	wg.Wait()
	if !proto.Equal(node, before) {
		t.Error("the client's node was changed")
	}
}

func BenchmarkResolve(b *testing.B) {
	for _, bm := range []struct {
		name string
		rule Rule
	}{
		{"default", DefaultRule()},
		{"digest", Rule{Match: `has(node.metadata.env)`, Key: `node.cluster + "/" + node.metadata.env`, PassFields: []string{"locality"}}},
	} {
		b.Run(bm.name, func(b *testing.B) {
			rs, node := mustCompile(b, bm.rule), testNode(b)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := rs.Resolve(node, Peer{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
