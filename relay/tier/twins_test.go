package tier

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// seen are members that a test sets.
type seen struct {
	*shard.Current

	self shard.Member
}

func (s *seen) Missing() []shard.Missing  { return nil }
func (s *seen) Self() shard.Member        { return s.self }
func (*seen) Enter()                      {}
func (*seen) Announce(shard.Status)       {}
func (*seen) Leave(context.Context) error { return nil }
func (*seen) Close()                      {}

// TestTwins: of two nodes with the same name the older one does not own the keys of that name. It
// follows the other one, and asks the origin while that one is unreachable, but not as the owner.
// A member at the older node's own address is the older node.
func TestTwins(t *testing.T) {
	self := shard.Member{Name: "a", Peer: "127.0.0.1:1", Incarnation: "1", Since: time.Unix(1, 0)}
	twin := shard.Member{Name: "a", Peer: "127.0.0.1:2", Incarnation: "2", Since: time.Unix(2, 0)}
	members := &seen{shard.NewCurrent(self, twin), self}
	dialled := make(chan string, 100)
	peers := NewPeers(PeersConfig{Self: "a", Timeout: 20 * time.Millisecond, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(_ context.Context, address string) (net.Conn, error) {
			dialled <- address
			return nil, errors.New("out of reach")
		}),
	}})
	defer peers.Close()
	owns := make(chan bool, 100)
	tier, err := New(Config{
		Members: members, Peers: peers, OwnerTimeout: 20 * time.Millisecond,
		Origin: Origin{Run: func(ctx context.Context, _ *cache.Feed) { <-ctx.Done() }},
		Own: []Hook{func(*cache.Group) (end func()) {
			owns <- true
			return func() {}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer tier.Close()
	c, err := cache.New(cache.Config{Run: tier.Run, Wake: func([]*cache.Subscription) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Join("k", &corev3.Node{})
	xdstest.Eventually(t, "the origin to be asked", func() bool { return tier.Places()["k"].State.fromOrigin() })
	if p := tier.Places()["k"]; p.State != Alone || len(owns) > 0 {
		t.Fatalf("the key comes from the origin as %q, its hooks called: %t", p.State, len(owns) > 0)
	}
	if to := <-dialled; to != twin.Peer {
		t.Errorf("the node at %s was asked, expected %s", to, twin.Peer)
	}
	twin.Peer = self.Peer
	members.Set([]shard.Member{twin})
	<-owns
	if p := tier.Places()["k"]; p.State != Owner {
		t.Errorf("the key comes from %q", p.State)
	}
}
