package head

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest/standin"
	"xdsrelay/shard/store"
)

// longestRound bounds the time from one round to the next.
const longestRound = 3 * time.Second * 5 / 4

// bubble is a Redis in virtual time.
type bubble struct {
	*standin.Server
	t       *testing.T
	network *xdstest.Memory
}

const redisAt = "127.0.0.1:6379"

// inBubble runs a test in virtual time, with the durations of production.
func inBubble(t *testing.T, test func(*testing.T, *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{Server: standin.New(), t: t, network: xdstest.NewMemory()}
		l, err := b.network.Listen(redisAt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		go b.Serve(l)
		test(t, b)
	})
}

// open connects to the Redis.
func (b *bubble) open() *store.Store { return b.openAt(redisAt) }

// openAt connects to the server at an address.
func (b *bubble) openAt(address string) *store.Store {
	b.t.Helper()
	s, err := store.New(store.Config{
		URL: "redis://" + address, Prefix: "test", Timeout: time.Second, Dial: b.network.Dial,
		Logger: slog.New(slog.DiscardHandler), Meter: noop.Meter{},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

// node creates a node with the durations of production, and connections of its own.
func (b *bubble) node(name string, cfg Config) *node {
	b.t.Helper()
	return newNodeOf(b.t, name, b.open(), cfg)
}

// wait lets time pass.
func (b *bubble) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// run runs a script that is not one of a node.
func (b *bubble) run(s *store.Store, text string, keys []string, args ...any) {
	b.t.Helper()
	if _, err := s.Run(b.t.Context(), store.NewScript("test", text), keys, args...); err != nil {
		b.t.Fatal(err)
	}
}

// knows checks that a node knows the head of the content of another one.
func (k *keyed) knows(of *keyed, when string) {
	k.t.Helper()
	if h := k.head(); h.Generation == 0 || !h.holds(of.edition()) {
		k.t.Errorf("%s, %s knows %+v of what %s holds", when, k.name, h, of.name)
	}
}

// pause returns how long a node does not read a key without a reason.
func (n *node) pause(key string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pauseLocked(key)
}

// pair returns an owner of a key and a node that follows it, which know the first head.
func (b *bubble) pair(cfg Config) (owner, follower *keyed) {
	owner, follower = b.node("a", cfg).key("k"), b.node("b", cfg).key("k")
	owner.own()
	owner.apply("1")
	b.wait(2 * time.Minute) // until the last write is confirmed
	follower.knows(owner, "at first")
	return owner, follower
}
