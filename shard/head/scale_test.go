package head

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
	"xdsrelay/shard/lease"
	"xdsrelay/shard/redistest"
)

// large adds a tier that takes minutes to simulate.
var large = flag.Bool("large", false, "TestTierAtScale has a hundred nodes with 10,000 keys, too")

// sizing returns the numbers of a formula in docs/operate/sizing.md about calls to Redis.
func sizing(t *testing.T, form string) (numbers []float64) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operate/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(form).FindSubmatch(text)
	if m == nil {
		t.Fatalf("docs/operate/sizing.md has no formula %s: has the form changed?", form)
	}
	for _, text := range m[1:] {
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// idleCalls returns how many calls per second an idle tier may make.
func idleCalls(t *testing.T, nodes, keys int) float64 {
	t.Helper()
	f := sizing(t, `nodes × ([\d.]+) \+ keys / (\d+)`)
	return float64(nodes)*f[0] + float64(keys)/f[1]
}

// fleet is a tier in virtual time. Each key is on some adjacent nodes and owned by the first of
// them.
type fleet struct {
	*bubble
	nodes     []*node
	owners    []*keyed   // by key
	followers [][]*keyed // by key
}

func (b *bubble) fleet(t *testing.T, nodes, keys, copies int) *fleet {
	t.Helper()
	f := &fleet{bubble: b}
	for i := range nodes {
		name := fmt.Sprint("n", i)
		members, err := lease.Join(lease.Config{
			Self: shard.Member{Name: name, Peer: "127.0.0.1:1", Stamps: true}, Store: b.open(), Lease: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(members.Close)
		members.Enter()
		count := func() int { return len(members.View().Members()) }
		f.nodes = append(f.nodes, b.node(name, Config{Nodes: count}))
	}
	for i := range keys {
		name := fmt.Sprint("k", i)
		owner := f.nodes[i%nodes].key(name)
		owner.own()
		owner.apply("1")
		var followers []*keyed
		for c := 1; c < copies; c++ {
			followers = append(followers, f.nodes[(i+c)%nodes].key(name))
		}
		f.owners, f.followers = append(f.owners, owner), append(f.followers, followers)
	}
	f.wait(2 * time.Minute) // until everything is known, and every write is confirmed
	return f
}

// calls returns how many commands Redis received from connections so far; the commands of a script
// count once, with the script.
func calls(all map[string]int) (n int) {
	for name, c := range all {
		switch name {
		case "EVAL", "EVALSHA", "PING", "SUBSCRIBE", "GET", "SET", "DEL":
			n += c
		}
	}
	return n
}

// TestTierAtScale: the calls of an idle tier to Redis depend on the number of its nodes, and hardly
// on that of keys; a change costs a call for each node that has the key, and a few more; and the
// formulas of docs/operate/sizing.md hold, up to a hundred nodes.
func TestTierAtScale(t *testing.T) {
	t.Parallel() // mostly waits
	for _, size := range []struct{ nodes, keys, copies, minutes int }{{3, 2000, 3, 15}, {10, 200, 10, 15}, {100, 10000, 2, 2}} {
		if size.nodes == 100 && !*large {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes, %d keys", size.nodes, size.keys), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) {
				f := b.fleet(t, size.nodes, size.keys, size.copies)
				before := calls(b.Calls())
				b.wait(time.Duration(size.minutes) * time.Minute)
				idle := float64(calls(b.Calls())-before) / float64(size.minutes*60)
				most := idleCalls(t, size.nodes, size.keys)
				t.Logf("idle: %.1f calls a second, docs/operate/sizing.md says %.1f", idle, most)
				if idle > most || idle < most/4 {
					t.Errorf("an idle tier made %.1f calls a second, docs/operate/sizing.md says %.1f", idle, most)
				}

				// A change in each of some keys, far apart.
				const changes, apart = 20, 5
				more := sizing(t, `nodes with the key \+ (\d+)`)[0]
				before = calls(b.Calls())
				for i := range changes {
					at := i * len(f.owners) / changes
					f.owners[at].apply("2")
					b.wait(apart * time.Second)
					for _, k := range f.followers[at] {
						k.knows(f.owners[at], "after a change")
					}
				}
				b.wait(2 * time.Minute) // until they are confirmed
				made, bound := float64(calls(b.Calls())-before), most*(changes*apart+120)+changes*(float64(size.copies)+more)
				t.Logf("with changes: %.0f calls, docs/operate/sizing.md says %.0f", made, bound)
				if made > bound {
					t.Errorf("with %d changes there were %.0f calls, docs/operate/sizing.md says %.0f", changes, made, bound)
				}
			})
		})
	}
}

// TestRealRedisAtScale: in a tier without changes, nodes read no key from a real server, however
// many they have: each round is one look.
func TestRealRedisAtScale(t *testing.T) {
	t.Parallel() // mostly waits
	server := redistest.Start(t, redistest.Config{Real: true})
	for _, size := range []struct{ nodes, keys int }{{3, 300}, {10, 200}, {3, 2000}} {
		if size.keys == 2000 && !*large {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes, %d keys", size.nodes, size.keys), func(t *testing.T) {
			server.Flush()
			var nodes []*node
			for i := range size.nodes {
				s := openStore(t, server.URL(), time.Minute)
				nodes = append(nodes, newNodeOf(t, fmt.Sprint(i), s, Config{Every: 100 * time.Millisecond, Sweep: never}))
			}
			for k := range size.keys {
				for i, n := range nodes {
					one := n.key(fmt.Sprint(k))
					if i == k%size.nodes {
						one.own()
						one.apply("1")
					}
				}
			}
			xdstest.Eventually(t, "nodes without a key's stream to know its head", func() bool {
				for k := range size.keys {
					if h, ok := nodes[(k+1)%size.nodes].Of(fmt.Sprint(k), clusters.URL); !ok || h.Generation == 0 {
						return false
					}
				}
				return true
			})
			xdstest.Eventually(t, "five rounds of all nodes in which no key is read", func() bool {
				looks, reads := asked(t, server)
				for {
					now, read := asked(t, server)
					if read > reads || now >= looks+5*size.nodes {
						return read == reads
					}
					<-time.After(50 * time.Millisecond)
				}
			})
		})
	}
}

// asked returns how often a server was asked for single fields, which each look does, and for whole
// hashes.
func asked(t *testing.T, server *redistest.Server) (looks, reads int) {
	t.Helper()
	info, _ := server.Do("INFO", "commandstats").(string)
	for _, m := range regexp.MustCompile(`cmdstat_(hget|hgetall):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if m[1] == "hget" {
			looks = n
		} else {
			reads = n
		}
	}
	return looks, reads
}
