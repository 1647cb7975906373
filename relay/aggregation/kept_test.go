package aggregation

import (
	"errors"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// TestResolveKept: a client of which a part is not kept gets a key from the rules that do not read
// that part, and no key from those that might.
func TestResolveKept(t *testing.T) {
	rules, err := Compile([]Rule{
		{Name: "shop", Match: `node.cluster == "shop"`, Key: "node.cluster"},
		{Name: "certificate", Match: `node.cluster == "edge"`, Key: "peer.spiffe_id"},
		{Name: "team", Key: "string(node.metadata.team)", PassFields: []string{"locality.zone"}},
	}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := func(numbers uint64, client bool) func(Reads) bool {
		return func(r Reads) bool { return r.Within(Fields{}, numbers) && (client || !r.Client) }
	}
	const names = 1<<1 | 1<<2 | 1<<10
	for _, c := range []struct {
		name, cluster string
		kept          func(Reads) bool
		rule          string // "" for not known
	}{
		{"decided by an earlier rule", "shop", kept(names, false), "shop"},
		{"needs metadata", "other", kept(names, true), ""},
		{"needs the certificate", "edge", kept(names, false), ""},
		{"features are part of each key", "shop", kept(1<<1|1<<2, true), ""},
	} {
		res, err := rules.ResolveKept(&corev3.Node{Id: "a", Cluster: c.cluster}, Peer{}, c.kept)
		if (c.rule == "") != errors.Is(err, ErrNotKept) || res.Rule != c.rule {
			t.Errorf("%s: got rule %q, error %v", c.name, res.Rule, err)
		}
	}
	if _, err := rules.ResolveKept(&corev3.Node{Id: "a", Cluster: "other"}, Peer{}, kept(^uint64(0), true)); err == nil || errors.Is(err, ErrNotKept) {
		t.Errorf("a client without metadata gets %v, expected a refusal", err)
	}
}
