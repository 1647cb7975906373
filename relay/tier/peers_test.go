package tier

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"xdsrelay/shard"
)

// TestUsedPeersStay: a connection that is used stays open, however often its node leaves and joins.
// An unused one is closed when its node is no longer a member.
func TestUsedPeersStay(t *testing.T) {
	peers := NewPeers(PeersConfig{Self: "a", DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return nil, errors.New("out of reach") }),
	}})
	defer peers.Close()
	b := shard.Member{Name: "b", Peer: "127.0.0.1:1"}
	there, gone := shard.NewView([]shard.Member{b}), shard.NewView(nil)
	ctx, cancel := context.WithCancel(t.Context())
	var coming, using sync.WaitGroup
	coming.Go(func() {
		for ctx.Err() == nil {
			peers.retain(gone)
			peers.retain(there)
		}
	})
	for range 4 {
		using.Go(func() {
			for range 100 {
				one := peers.use(b)
				peers.mu.Lock()
				if peers.all[idOf(b)] != one {
					t.Error("a connection was closed that is used")
				}
				peers.mu.Unlock()
				one.leave()
			}
		})
	}
	using.Wait()
	cancel()
	coming.Wait()
	peers.retain(gone)
	if n := len(peers.all); n > 0 {
		t.Errorf("%d connections are left to who has gone", n)
	}
}
