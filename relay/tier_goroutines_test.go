package relay_test

import (
	"bytes"
	"fmt"
	"maps"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/redistest"
)

// goroutines counts the goroutines of the process by the function that each began in. Package sync
// begins some for others.
func goroutines(t *testing.T) map[string]int {
	t.Helper()
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	by := make(map[string]int)
	// Each block is "COUNT @ addresses", then a line for each frame, the first function last.
	for block := range strings.SplitSeq(text.String(), "\n\n") {
		count, start := 0, ""
		for line := range strings.Lines(block) {
			fields := strings.Fields(line)
			switch {
			case len(fields) > 1 && fields[1] == "@":
				n, err := strconv.Atoi(fields[0])
				if err != nil {
					t.Fatal(err)
				}
				count = n
			case len(fields) > 2 && fields[0] == "#" && !strings.HasPrefix(fields[2], "sync."):
				start, _, _ = strings.Cut(fields[2], "+0x")
			}
		}
		by[start] += count
	}
	return by
}

// isRelays reports whether a function that a goroutine began in is one of the relay, and not of
// tests.
func isRelays(from string) bool {
	for _, test := range []string{"xdsrelay/relay_test.", "xdsrelay/relay/xdstest.", "xdsrelay/relay/xdsclient.", "xdsrelay/shard/redistest."} {
		if strings.HasPrefix(from, test) {
			return false
		}
	}
	return strings.HasPrefix(from, "xdsrelay/")
}

// ofStreams are the goroutines of grpc-go for each stream: the first is the client's, and waits for
// the end of its context; the second is the server's, and is the handler.
var ofStreams = []string{"google.golang.org/grpc.newClientStreamWithParams.", "google.golang.org/grpc.(*Server).serveStreams."}

// TestGoroutinesPerKey: on the owner of a key, and on each follower, a key has four goroutines of
// the relay: the receiver and the runner of its stream, its keeper, and the search. Nothing else
// that the tier does for a key, as tier heads and the last known good state, has one.
func TestGoroutinesPerKey(t *testing.T) {
	const keys, most = 20, 4
	redis := redistest.Start(t, redistest.Config{})
	o := xdstest.NewStateOrigin(t, (*corev3.Node).GetCluster)
	kept := keysOf(t, "one")
	node := func(name string) running {
		cfg := lastGoodConfig(t, "", kept)
		cfg.Node.Name, cfg.LastKnownGood.Store = name, config.StoreRedis
		cfg.Upstream.Addresses = []string{o.Addr()}
		cfg.Tier.Redis.URL, cfg.Tier.Redis.Timeout, cfg.Tier.Peer.Address = redis.URL(), xdstest.Patience, "127.0.0.1:0"
		return start(t, cfg)
	}
	a, b := node("a"), node("b")
	var ofA []string
	view := shard.NewView([]shard.Member{{Name: "a"}, {Name: "b"}})
	for i := 0; len(ofA) <= keys; i++ {
		if m, _ := view.Owner(fmt.Sprint("key", i)); m.Name == "a" {
			ofA = append(ofA, fmt.Sprint("key", i))
		}
	}
	for _, key := range ofA {
		o.Set(key, xdstest.Cluster("c1", time.Second))
	}
	join := func(n running, some []string) {
		t.Helper()
		for _, key := range some {
			c := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: n.Addr(), Variant: xdstest.Delta, Node: xdstest.Node("client of "+key, key)})
			c.Subscribe(xdstest.ClusterType)
			c.WaitHeld(t, xdstest.ClusterType, "c1")
		}
		xdstest.Eventually(t, "the keys to be kept", func() bool {
			return len(redis.Do("KEYS", "*:good:*").([]any)) == len(redis.Do("KEYS", "*:head").([]any))
		})
	}
	var found []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(strings.Join(found, "\n"))
		}
	})
	for _, step := range []struct {
		name string
		node running
	}{{"owner", a}, {"follower", b}} {
		join(step.node, ofA[:1]) // what a node has once is there with its first key
		before := goroutines(t)
		join(step.node, ofA[1:])
		xdstest.Eventually(t, step.name+" to have few goroutines", func() bool {
			found = nil
			now, ours, streams := goroutines(t), 0, [2]int{}
			for _, from := range slices.Sorted(maps.Keys(now)) {
				n := now[from] - before[from]
				if isRelays(from) && n != 0 {
					ours += n
					found = append(found, fmt.Sprintf("%d began in %s", n, from))
				}
				for i, prefix := range ofStreams {
					if strings.HasPrefix(from, prefix) {
						streams[i] += n
					}
				}
			}
			found = append(found, fmt.Sprintf("the relay has %d, at most %d expected; grpc-go has %d of streams' clients and %d of their servers, %d of each expected",
				ours, most*keys, streams[0], streams[1], 2*keys))
			// A key has two streams: that of the test's client, and that to the control plane or the owner.
			return ours <= most*keys && streams == [2]int{2 * keys, 2 * keys}
		})
	}
}
