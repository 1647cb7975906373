package aggregation

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// K4, K6: a key made of a part of a field groups clients that differ in the rest, and
// the control plane sees the key in the place of the field.
func TestKeyIsShownInTheFieldsPlace(t *testing.T) {
	key := `regex.replace(node.id, "^([a-z]+)-[0-9]+$", "\\1")`
	resolve := func(r Rule, id string) Result {
		t.Helper()
		res, err := mustCompile(t, r).Resolve(testNode(t, func(n *corev3.Node) { n.Id = id }), Peer{})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	whole := Rule{Key: key}
	if a, b := resolve(whole, "web-1"), resolve(whole, "web-2"); a.Key == b.Key {
		t.Errorf("both are %s, and the control plane sees %s and %s", a.Key, a.Node.Id, b.Node.Id)
	}
	for _, tc := range []struct {
		rule             Rule
		key, id, cluster string
		zone             string
	}{
		{Rule{Key: key, NodeField: "id"}, "web~id=key", "web", "", ""},
		{Rule{Key: key, NodeField: "cluster"}, "web~cluster=key", "xdsrelay/web~cluster=key", "web", ""},
		{Rule{Key: key, NodeField: "id", PassFields: []string{"cluster", "locality.zone"}}, "web~DIGEST", "web", "web", "eu-1"},
	} {
		a, b := resolve(tc.rule, "web-1"), resolve(tc.rule, "web-2")
		if a.Key != b.Key || cutDigest(a.Key) != tc.key {
			t.Errorf("keys %s and %s, want %s", a.Key, b.Key, tc.key)
		}
		if n := a.Node; n.Id != tc.id || n.Cluster != tc.cluster || n.GetLocality().GetZone() != tc.zone {
			t.Errorf("shown are id %q, cluster %q, zone %q, want %q, %q, %q", n.Id, n.Cluster, n.GetLocality().GetZone(), tc.id, tc.cluster, tc.zone)
		}
		if nodeBytes(t, a.Node) != nodeBytes(t, b.Node) {
			t.Errorf("one key, two nodes: %s and %s", nodeJSON(a.Node), nodeJSON(b.Node))
		}
		if c := resolve(tc.rule, "db-1"); c.Key == a.Key {
			t.Errorf("db-1 shares %s with web-1", c.Key)
		}
	}
	// The text may be that of another rule's key: the keys are different all the same.
	if a, b := resolve(Rule{Key: key, NodeField: "id"}, "web-1"), resolve(Rule{Key: "node.id"}, "web"); a.Key == b.Key {
		t.Errorf("both are %s", a.Key)
	}
}

func TestMistakesOfShownAsAndRegex(t *testing.T) {
	for _, tc := range []struct {
		rule Rule
		want string
	}{
		{Rule{Key: "node.id", NodeField: "zone"}, `"zone" is not a field that can show the key, expected id or cluster`},
		{Rule{Key: "node.id", NodeField: "id", PassFields: []string{"id"}}, "is the field that shows the key"},
		{Rule{Key: `regex.replace(node.id, node.cluster, "")`}, "needs a constant pattern"},
		{Rule{Key: `regex.replace(node.id, "(", "")`}, "not a valid regular expression"},
		{Rule{Key: `regex.replace(node.id, "a", "\\1")`}, `\1 is put in, but the pattern has 0 groups`},
		{Rule{Key: `regex.replace(node.id, "a", "\\x")`}, `\x cannot be put in`},
		{Rule{Key: `regex.replace(node.id, "a", "\\")`}, `ends in \`},
		{Rule{Key: `regex.replace(node.id, "a", "` + strings.Repeat("x", 65) + `")`}, "at most 64 characters"},
		{Rule{Key: `regex.replace(node.id, "a")`}, "no matching overload"},
	} {
		_, err := Compile([]Rule{tc.rule}, Options{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: error %v, want %q in it", tc.rule, err, tc.want)
		}
	}
}

// TestRegexReplace: the function replaces as package regexp does, and does not
// multiply what a client sends without bound.
func TestRegexReplace(t *testing.T) {
	for _, tc := range []struct{ key, want string }{
		{`regex.replace("web-17", "-[0-9]+", "")`, "web"},
		{`regex.replace("a-b", "(.)-(.)", "\\2$1\\\\\\1")`, `b$1\a`},
		{`regex.replace("abc", "", "-")`, "-a-b-c-"},
		{`regex.replace("x", "(a)?x", "[\\1]")`, "[]"},
		{`regex.replace("abc", "b", "<\\0>")`, "a<b>c"},
	} {
		res, err := mustCompile(t, Rule{Key: tc.key}).Resolve(testNode(t), Peer{})
		if got, _, _ := strings.Cut(string(res.Key), "~"); err != nil || got != tc.want {
			t.Errorf("%s: %q, error %v, want %q", tc.key, got, err, tc.want)
		}
	}
	long := testNode(t, func(n *corev3.Node) { n.UserAgentName = strings.Repeat("x", maxRegexText+1) })
	_, err := mustCompile(t, Rule{Key: `regex.replace(node.user_agent_name, "x", "")`}).Resolve(long, Peer{})
	if err == nil || !strings.Contains(err.Error(), "4097 bytes, expected at most 4096") {
		t.Errorf("error %v", err)
	}
}
