package tier

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/shard"
)

// TestHooks: the hooks of a state end in the reverse order, and those of the next one begin when they
// have ended. The keeper does not wait for that in between, and the hooks of a node that is Alone
// for long begin only once it is.
func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var log []string // guarded by mu
		note := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			log = append(log, name)
		}
		hook := func(name string, took time.Duration) Hook {
			return func(*cache.Group) (end func()) {
				note(name)
				return func() {
					time.Sleep(took) //nolint:forbidigo // virtual time
					note("-" + name)
				}
			}
		}
		cfg := &Config{Own: []Hook{hook("heads", 0), hook("last good", time.Second)}, Advance: []Hook{hook("advance", 0)}, Alone: []Hook{hook("alone", 0)}}
		h := hooks{cfg: cfg, group: &cache.Group{}}
		is := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(log, want) {
				t.Errorf("%s: %s, expected %s", what, strings.Join(log, ", "), strings.Join(want, ", "))
			}
			log = nil
		}
		h.begin(Follower)
		is("a follower")
		h.begin(Owner)
		is("the owner", "heads", "last good")
		began := time.Now()
		h.end()
		is("while hooks end")
		if took := time.Since(began); took > 0 {
			t.Errorf("the keeper waited %v", took)
		}
		h.begin(Alone)
		is("alone", "-last good", "-heads", "advance")
		if at := h.next(time.Now()); !at.Equal(time.Now().Add(aloneFor)) {
			t.Errorf("the other hooks are due at %v", at)
		}
		is("alone for less")
		h.end()
		is("alone no more", "-advance")
		if at := h.next(time.Now().Add(aloneFor)); !at.IsZero() {
			t.Errorf("other hooks are due at %v", at)
		}
		h.begin(Alone)
		if at := h.next(time.Now().Add(aloneFor)); !at.IsZero() {
			t.Errorf("other hooks are due at %v", at)
		}
		is("alone for long", "advance", "alone")
		h.stop()
		is("the end", "-alone", "-advance")
		h.stop()
		is("once more")
	})
}

// TestKeysEndTogether: the hooks of all keys end at the same time when a node ends.
func TestKeysEndTogether(t *testing.T) {
	for name, peers := range map[string]*Peers{"without peers": nil, "in a tier": NewPeers(PeersConfig{Self: "a"})} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const keys = 1000
				tier, err := New(Config{
					Members: shard.NewSolo(shard.Member{Name: "a"}), Peers: peers,
					Origin: Origin{Run: func(ctx context.Context, _ *cache.Feed) { <-ctx.Done() }},
					Own: []Hook{func(*cache.Group) (end func()) {
						return func() { <-time.After(time.Second) }
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
				for i := range keys {
					c.Join(aggregation.Key(fmt.Sprint(i)), &corev3.Node{})
				}
				synctest.Wait()
				began := time.Now()
				c.Close()
				if took := time.Since(began); took != time.Second {
					t.Errorf("%d keys end in %v, expected 1s", keys, took)
				}
			})
		})
	}
}
