package tier

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/shard"
)

// TestAloneForLong: the hooks of a node that is alone with a key run once that has lasted, and end
// when the node owns the key; those of an owner do not run before.
func TestAloneForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self, owner := shard.Member{Name: "a", Peer: "127.0.0.1:1"}, shard.Member{Name: "b", Peer: "127.0.0.1:2"}
		members := &seen{shard.NewCurrent(self, owner), self}
		key := ""
		for i := 0; key == ""; i++ {
			if m, _ := members.View().Owner(fmt.Sprint(i)); m.Name == owner.Name {
				key = fmt.Sprint(i)
			}
		}
		peers := NewPeers(PeersConfig{Self: self.Name, DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("out of reach") }),
		}})
		defer peers.Close()
		running := map[State]*atomic.Bool{Owner: {}, Alone: {}}
		hook := func(s State) []Hook {
			return []Hook{func(*cache.Group) (end func()) {
				running[s].Store(true)
				return func() { running[s].Store(false) }
			}}
		}
		tier, err := New(Config{
			Members: members, Peers: peers, Own: hook(Owner), Alone: hook(Alone),
			Origin: Origin{Run: func(ctx context.Context, _ *cache.Feed) { <-ctx.Done() }},
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
		c.Join(aggregation.Key(key), &corev3.Node{})
		is := func(at string, state State, alone, own bool) {
			t.Helper()
			synctest.Wait()
			if p := tier.Places()[key]; p.State != state || running[Alone].Load() != alone || running[Owner].Load() != own {
				t.Errorf("%s: the key comes from the origin as %q, hooks run: alone %t, owner %t", at, p.State, running[Alone].Load(), running[Owner].Load())
			}
		}
		time.Sleep(aloneFor) //nolint:forbidigo // virtual time
		is("for a while", Alone, false, false)
		time.Sleep(aloneFor) //nolint:forbidigo // virtual time
		is("for long", Alone, true, false)
		members.Set([]shard.Member{self})
		is("as the owner", Owner, false, true)
	})
}
