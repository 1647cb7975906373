package store_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest/standin"
	"xdsrelay/shard/store"
)

// TestMoreCallsThanConnections: calls wait for a connection, within their timeout, and several
// bubbles may make them one after the other. The first connections take so long that most calls
// wait.
func TestMoreCallsThanConnections(t *testing.T) {
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			const address = "127.0.0.1:6379"
			network, server := xdstest.NewMemory(), standin.New()
			l, err := network.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			go server.Serve(l)
			dials := 0
			s, _ := open(t, "redis://"+address, func(c *store.Config) {
				c.Timeout = time.Second
				var mu sync.Mutex
				c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
					mu.Lock()
					dials++
					mu.Unlock()
					<-time.After(10 * time.Millisecond)
					return network.Dial(ctx, address)
				}
			})
			var calls sync.WaitGroup
			for range 50 {
				calls.Go(func() {
					if _, err := s.Get(t.Context(), s.Name(store.TierHead, "a")); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			if dials > 8 {
				t.Errorf("%d connections were made, expected at most 8", dials)
			}
		})
	}
}
