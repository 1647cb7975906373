package authorize_test

import (
	"errors"
	"testing"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// FuzzPolicy: no rule does harm when it is read, asked or explained; what it decides
// stays the same, and whoever is refused learns by which rule.
func FuzzPolicy(f *testing.F) {
	f.Add("own", `peer.spiffe_id == "spiffe://corp/" + node.cluster`, false, "web", "spiffe://corp/web")
	f.Add("", `peer.authenticated && node.metadata.team.name == "core"`, true, "", "")
	f.Add("any", "", false, "web", "")
	f.Add("x\n", `listener == "default" && node.metadata[node.cluster].a > 3`, false, "\x00", "spiffe://corp/\xff")
	f.Add("y", `peer.spiffe_id.matches("^spiffe://(a|b)*$") || "a" in peer.dns_names`, true, "web", "spiffe://aaaaaaaaaaaaaaaaaaaac")
	f.Fuzz(func(t *testing.T, name, match string, deny bool, cluster, id string) {
		list := []authorize.Rule{{Name: name, Match: match, Deny: deny}, {Name: "last", Match: `peer.spiffe_id == "spiffe://corp/last"`}}
		p, err := authorize.Compile(list)
		if err != nil {
			var ce *aggregation.CompileError
			if !errors.As(err, &ce) || err.Error() == "" {
				t.Fatalf("not a CompileError: %v", err)
			}
			return
		}
		n := node(t, cluster, map[string]any{"team": map[string]any{"name": "core"}})
		for _, peer := range []aggregation.Peer{{}, {Listener: "default"}, spiffe(id)} {
			first := p.Check(n, peer)
			var refusal *authorize.Refusal
			if first != nil && (!errors.As(first, &refusal) || first.Error() == "") {
				t.Fatalf("not a Refusal: %v", first)
			}
			again := p.Check(n, peer)
			if (first == nil) != (again == nil) || first != nil && first.Error() != again.Error() {
				t.Errorf("%v, then %v", first, again)
			}
			if peer.SPIFFEID == "" && !peer.Authenticated && peer.Listener == "" && deny && first == nil {
				t.Error("a stranger is let in by a rule that refuses, or by one for another")
			}
		}
	})
}
