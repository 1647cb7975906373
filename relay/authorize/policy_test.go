package authorize_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

var update = flag.Bool("update", false, "write testdata/errors.golden anew")

func compile(t testing.TB, rules ...authorize.Rule) *authorize.Policy {
	t.Helper()
	p, err := authorize.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func node(t testing.TB, cluster string, metadata map[string]any) *corev3.Node {
	t.Helper()
	md, err := structpb.NewStruct(metadata)
	if err != nil {
		t.Fatal(err)
	}
	return &corev3.Node{Id: "n", Cluster: cluster, Metadata: md}
}

func spiffe(id string) aggregation.Peer {
	return aggregation.Peer{Authenticated: true, SPIFFEID: id, URIs: []string{id}, Listener: "default"}
}

// TestCheck: the first rule that matches decides, and a rule that cannot be asked
// refuses. Who is refused is told which rule it was.
func TestCheck(t *testing.T) {
	p := compile(t,
		authorize.Rule{Name: "banned", Match: `peer.spiffe_id.startsWith("spiffe://corp/ns/old/")`, Deny: true},
		authorize.Rule{Name: "own", Match: `peer.spiffe_id == "spiffe://corp/ns/" + node.cluster`},
		authorize.Rule{Name: "team", Match: `peer.authenticated && node.metadata.team.name == "core" && int(node.metadata.level) > 3`},
		authorize.Rule{Match: `listener == "local"`},
	)
	local := aggregation.Peer{Listener: "local"}
	core := map[string]any{"team": map[string]any{"name": "core"}, "level": "4"}
	for _, tc := range []struct {
		name     string
		node     *corev3.Node
		peer     aggregation.Peer
		rule     string
		reason   authorize.Reason
		contains string
	}{
		{"its own", node(t, "web", nil), spiffe("spiffe://corp/ns/web"), "", "", ""},
		{"team", node(t, "db", core), spiffe("spiffe://corp/ns/web"), "", "", ""},
		{"local", node(t, "db", nil), local, "", "", ""},
		{"denied before it is allowed", node(t, "old/x", nil), spiffe("spiffe://corp/ns/old/x"), "banned", authorize.Denied, "rule banned"},
		{"another's", node(t, "db", map[string]any{"team": map[string]any{"name": "x"}}), spiffe("spiffe://corp/ns/web"), "", authorize.NoRule, "tried: banned, own, team, #4"},
		{"no metadata", node(t, "db", nil), spiffe("spiffe://corp/ns/web"), "team", authorize.Failed, "lacks a metadata key"},
		{"bad metadata", node(t, "db", map[string]any{"team": map[string]any{"name": "core"}, "level": "s3cret"}), spiffe("spiffe://corp/ns/web"), "team", authorize.Failed, "fails on its values"},
		{"wrong type", node(t, "db", map[string]any{"team": "core"}), spiffe("spiffe://corp/ns/web"), "team", authorize.Failed, "metadata"},
	} {
		err := p.Check(tc.node, tc.peer)
		ex := p.Explain(tc.node, tc.peer)
		if tc.reason == "" {
			if err != nil || ex.Refusal != nil {
				t.Errorf("%s: refused: %v, %v", tc.name, err, ex.Refusal)
			}
			continue
		}
		r := authorize.AsRefusal(err)
		if r == nil || r.Rule != tc.rule || r.Reason != tc.reason || !strings.Contains(r.Error(), tc.contains) || *r != *ex.Refusal {
			t.Errorf("%s: %v (%+v, %+v), want rule %q, %s", tc.name, err, r, ex.Refusal, tc.rule, tc.reason)
			continue
		}
		if status.Code(err) != codes.PermissionDenied || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// TestOpen: nothing but an empty list and the word lets in everybody.
func TestOpen(t *testing.T) {
	for _, p := range []*authorize.Policy{nil, compile(t), compile(t, authorize.Any()...)} {
		if !p.Open() || p.Check(&corev3.Node{}, aggregation.Peer{}) != nil || !strings.Contains(p.Explain(&corev3.Node{}, aggregation.Peer{}).String(), "every client") {
			t.Errorf("%v refuses somebody", p)
		}
	}
	p := compile(t, authorize.Rule{Match: "peer.authenticated"})
	if p.Open() || p.Check(&corev3.Node{}, aggregation.Peer{}) == nil {
		t.Error("a client that proves nothing is let in")
	}
}

// TestExplain holds what an operator sees.
func TestExplain(t *testing.T) {
	p := compile(t,
		authorize.Rule{Name: "own", Match: `peer.spiffe_id ==
	"spiffe://corp/ns/" + node.cluster`},
		authorize.Rule{Name: "banned", Match: "peer.authenticated", Deny: true},
		authorize.Rule{Name: "rest", Match: `listener == "x"`},
	)
	got := p.Explain(node(t, "web", nil), spiffe("spiffe://corp/ns/db")).String()
	const want = `AUTHORIZATION RULE  OUTCOME      MATCH
own                 no match     peer.spiffe_id == "spiffe://corp/ns/" + node.cluster
banned              refuses      peer.authenticated
rest                not reached  listener == "x"

refused: authorization rule banned denies this client (PermissionDenied)
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestErrors holds every message that a user can get for a wrong rule.
func TestErrors(t *testing.T) {
	var out strings.Builder
	for _, tc := range []struct {
		name  string
		rules []authorize.Rule
	}{
		{"no match", []authorize.Rule{{Name: "a"}}},
		{"no match in two", []authorize.Rule{{Name: "any"}, {Name: "b", Match: "peer.authenticated"}}},
		{"denies all", []authorize.Rule{{Name: "any", Deny: true}}},
		{"unknown field", []authorize.Rule{{Name: "a", Match: "peer.spiffe == ''"}}},
		{"unknown variable", []authorize.Rule{{Match: "key == 'x' && peer.authenticated"}}},
		{"no bool", []authorize.Rule{{Match: "peer.spiffe_id"}}},
		{"always", []authorize.Rule{{Match: "true"}}},
		{"always in the end", []authorize.Rule{{Match: "peer.authenticated || node.cluster == 'a' || 1 < 2"}}},
		{"never", []authorize.Rule{{Match: "peer.authenticated && false"}}},
		{"claim alone", []authorize.Rule{{Match: "node.cluster == 'web'"}}},
		{"pattern in the middle", []authorize.Rule{{Match: "peer.spiffe_id.matches('spiffe://corp/.*')"}}},
		{"pattern with an open end", []authorize.Rule{{Match: "peer.spiffe_id.matches('^spiffe://corp/a|b$')"}}},
		{"half a trust domain", []authorize.Rule{{Match: "peer.spiffe_id.startsWith('spiffe://corp')"}}},
		{"empty prefix", []authorize.Rule{{Match: "peer.spiffe_id.startsWith('')"}}},
		{"same name", []authorize.Rule{{Name: "a", Match: "peer.authenticated"}, {Name: "a", Match: "peer.authenticated"}}},
		{"bad name", []authorize.Rule{{Name: "a\nb", Match: "peer.authenticated"}}},
		{"loop variable", []authorize.Rule{{Match: "peer.uris.exists(listener, listener == 'x')"}}},
	} {
		_, err := authorize.Compile(tc.rules)
		if err == nil {
			t.Errorf("%s: compiles", tc.name)
			continue
		}
		if _, ok := errors.AsType[*aggregation.CompileError](err); !ok {
			t.Errorf("%s: %T is no CompileError", tc.name, err)
		}
		out.WriteString("== " + tc.name + "\n" + err.Error() + "\n\n")
	}
	const golden = "testdata/errors.golden"
	if *update {
		if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(golden, []byte(out.String()), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// TestDenyByClaim: to refuse by the claim alone is no mistake.
func TestDenyByClaim(t *testing.T) {
	p := compile(t, authorize.Rule{Name: "old", Match: "node.user_agent_name == 'old'", Deny: true}, authorize.Rule{Match: "peer.authenticated"})
	if err := p.Check(&corev3.Node{UserAgentName: "old"}, spiffe("spiffe://corp/a")); authorize.AsRefusal(err) == nil {
		t.Error(err)
	}
}
