package tier

import (
	"context"
	"net/url"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// TestHandOverFromNodes: K14: content is taken over from the address that members have of the node
// that ends. From a node that is no member it is taken only where the peer port lets in nobody but
// nodes of the tier, and from the address that the node says it has.
func TestHandOverFromNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		peers := NewPeers(PeersConfig{Self: "a", DialOptions: []grpc.DialOption{network.Option(), grpc.WithTransportCredentials(insecure.NewCredentials())}})
		defer peers.Close()
		b, c := listen(t, network, "b"), listen(t, network, "c")
		for _, o := range []*other{b, c} {
			o.answer = `{"key":"k"}`
		}
		for _, proven := range []bool{false, true} {
			adopted := 0
			self := shard.Member{Name: "a", Peer: "127.0.0.1:1"}
			tier, err := New(Config{
				Members: &seen{shard.NewCurrent(self, b.Member), self}, Peers: peers, PeersProven: proven,
				Origin: Origin{Run: func(context.Context, *cache.Feed) {}},
				Adopt:  func(aggregation.Key, *corev3.Node, []cache.Snapshot) { adopted++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			unlisted := codes.PermissionDenied
			if proven {
				unlisted = codes.InvalidArgument
			}
			for _, step := range []struct {
				from, at string
				want     codes.Code
				asked    *other
			}{
				{"b", b.Peer, codes.OK, b},
				{"b", c.Peer, codes.OK, b}, // the address of a member is known
				{"b", "", codes.OK, b},     // as releases before ask
				{"c", "", unlisted, nil},
				{"c", "unix:///run/anything", unlisted, nil},
				{"a", c.Peer, codes.InvalidArgument, nil},
				{"", c.Peer, codes.InvalidArgument, nil},
			} {
				tryHandOver(t, tier, step.from, step.at, step.want, step.asked, b, c)
			}
			if proven {
				tryHandOver(t, tier, "c", c.Peer, codes.OK, c, b, c)
			} else {
				tryHandOver(t, tier, "c", c.Peer, codes.PermissionDenied, nil, b, c)
			}
			want := 3
			if proven {
				want++
			}
			if adopted != want {
				t.Errorf("proven %t: content was taken over %d times, expected %d", proven, adopted, want)
			}
			tier.Close()
		}
	})
}

// tryHandOver asks a node to take over what another one holds, and holds which of all nodes it asks.
func tryHandOver(t *testing.T, tier *Tier, from, at string, want codes.Code, asked *other, all ...*other) {
	t.Helper()
	before := make(map[*other]int)
	for _, o := range all {
		before[o], _, _ = o.counts()
	}
	query := url.Values{paramKey: {"k"}, paramFrom: {from}, paramAt: {at}}
	if _, err := tier.Ask(t.Context(), tier.Self(), adoptPath+"?"+query.Encode()); status.Code(err) != want {
		t.Errorf("from %q at %q: %v, expected %s", from, at, err, want)
	}
	for _, o := range all {
		if n, _, _ := o.counts(); (n > before[o]) != (o == asked) {
			t.Errorf("from %q at %q: node %s was asked %d questions", from, at, o.Name, n-before[o])
		}
	}
}
