package tier

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/xdstest"
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

// TestAskedWhileItLeaves: a node that is asked while it leaves the tier answers: the connection stays open
// until then.
func TestAskedWhileItLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		peers := connected(t, network, 2*time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		var leaving sync.WaitGroup
		leaving.Go(func() {
			for ctx.Err() == nil {
				peers.retain(shard.NewView(nil))
				runtime.Gosched()
			}
		})
		for range 100 {
			if _, err := peers.Ask(t.Context(), b.Member, statusPath); err != nil {
				t.Error(err)
				break
			}
		}
		cancel()
		leaving.Wait()
		peers.retain(shard.NewView(nil))
		if n := len(peers.all); n > 0 {
			t.Errorf("%d connections are left to who has gone", n)
		}
	})
}

// TestConnectionsToFormerMembers: nodes that are no longer members are asked for some time, which
// connects to them again, and a keeper may begin to use a connection just after its node has left.
// Such a connection closes after the last call or use, also if the members never change again.
func TestConnectionsToFormerMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := xdstest.NewMemory()
		b := listen(t, network, "b")
		peers := connected(t, network, 2*time.Second)
		tier, err := New(Config{Members: shard.NewSolo(shard.Member{Name: "a"}), Origin: Origin{Run: func(context.Context, *cache.Feed) {}}, Peers: peers})
		if err != nil {
			t.Fatal(err)
		}
		defer tier.Close()
		synctest.Wait() // the tier has seen its members
		connection := func() *peer {
			peers.mu.Lock()
			defer peers.mu.Unlock()
			return peers.all[idOf(b.Member)]
		}
		const rest = 3 * unusedTime

		var first *peer
		for range 30 {
			if _, err := tier.Ask(t.Context(), b.Member, statusPath); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = connection()
			}
			time.Sleep(unusedTime / 6) //nolint:forbidigo // virtual time
		}
		if connection() != first {
			t.Error("the connection to a node that is asked often was closed")
		}
		time.Sleep(rest) //nolint:forbidigo // virtual time
		if connection() != nil {
			t.Errorf("a connection is still open %s after the last question to a node that is no longer a member", rest)
		}

		one := peers.use(b.Member)
		time.Sleep(rest) //nolint:forbidigo // virtual time
		if connection() != one {
			t.Error("a connection was closed that is used")
		}
		one.leave()
		time.Sleep(rest) //nolint:forbidigo // virtual time
		if connection() != nil {
			t.Errorf("a connection is still open %s after the last use of a node that is no longer a member", rest)
		}

		one = peers.use(b.Member)
		one.leave()
		time.Sleep(rest) //nolint:forbidigo // virtual time
		if connection() != nil {
			t.Errorf("a connection that was used for a moment is still open %s later", rest)
		}
	})
}
