package aggregation

import (
	"errors"
	"testing"
	"unicode"

	"google.golang.org/protobuf/proto"
)

// FuzzCompile: no text makes Compile or the rule it gives panic, and what comes
// out of a rule is a printable, bounded key with a Node, or a refusal.
func FuzzCompile(f *testing.F) {
	for _, key := range keyExprs {
		f.Add("", key, "metadata.env")
	}
	f.Add(`node.metadata["x"].y[0] == 1`, `node.client_features.filter(f, f != "")[0]`, `metadata["a.b"].c`)
	f.Add(`peer.uris.exists(u, u.matches("^spiffe://"))`, `peer.dns_names[0].split(".")[0]`, "locality")
	f.Add(`node.metadata.map(k, k) == []`, `envoy.config.core.v3.Node{id: node.id}.id`, "id\n.x")
	f.Fuzz(func(t *testing.T, match, key, pass string) {
		rs, err := Compile([]Rule{{Match: match, Key: key, PassFields: []string{pass}}}, Options{CostLimit: 1000})
		if err != nil {
			var ce *CompileError
			if !errors.As(err, &ce) || err.Error() == "" {
				t.Fatalf("not a CompileError: %v", err)
			}
			return
		}
		res, err := rs.Resolve(testNode(t), Peer{Authenticated: true, DNSNames: []string{"a.b"}})
		if err != nil {
			if _, ok := errors.AsType[*Refusal](err); !ok {
				t.Fatalf("not a Refusal: %v", err)
			}
			return
		}
		if res.Node.GetId() == "" || res.Key == "" || len(res.Key) > MaxKeyLen {
			t.Fatalf("key %q, node %v", res.Key, res.Node)
		}
		for _, r := range string(res.Key) {
			if !unicode.IsPrint(r) {
				t.Fatalf("unprintable key %q", res.Key)
			}
		}
	})
}

// FuzzParseNodeJSON: no text panics; a Node that is accepted holds something and
// can be resolved or refused.
func FuzzParseNodeJSON(f *testing.F) {
	for _, s := range []string{`{"id":"a"}`, `{"node":{"id":"a","metadata":{"x":[1,null]}}}`, `{"node":3}`, `{}`, `[`, "{\n\"id\":\n}", ``} {
		f.Add([]byte(s))
	}
	rs := mustCompile(f, Rule{Key: `node.cluster + node.id`, PassFields: []string{"metadata", "locality"}})
	f.Fuzz(func(t *testing.T, data []byte) {
		node, err := ParseNodeJSON(data)
		if err != nil {
			return
		}
		if proto.Size(node) == 0 {
			t.Fatal("an empty node was accepted")
		}
		_ = rs.Explain(node, Peer{}).String()
	})
}
