package fanout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials/insecure"
)

// spread simulates how clients are spread over the nodes of a tier.
type spread struct {
	random  *rand.Rand
	clients []*visit
	counts  []int         // clients by node
	has     []map[int]int // by node and key
}

// visit is the node and key of a client.
type visit struct {
	key, node int
	since     int // in minutes
	moves     int
}

// spreadClients spreads clients at random over the first of the nodes.
func spreadClients(nodes, joined, keys int, clientsOf func(key int) int) *spread {
	c := &spread{random: rand.New(rand.NewPCG(1, 2)), counts: make([]int, nodes+joined)}
	for range c.counts {
		c.has = append(c.has, make(map[int]int))
	}
	for key := range keys {
		for range clientsOf(key) {
			v := &visit{key: key, since: -1 << 20}
			c.clients = append(c.clients, v)
			c.enter(v, c.random.IntN(nodes))
		}
	}
	return c
}

func (c *spread) enter(v *visit, node int) {
	v.node = node
	c.counts[node]++
	c.has[node][v.key]++
}

func (c *spread) leave(v *visit) {
	c.counts[v.node]--
	if c.has[v.node][v.key]--; c.has[v.node][v.key] == 0 {
		delete(c.has[v.node], v.key)
	}
	v.moves++
}

// copies returns the number of pairs of a node and a key with clients: the number of keys that the
// tier holds in memory.
func (c *spread) copies() (n int) {
	for _, keys := range c.has {
		n += len(keys)
	}
	return n
}

// most returns how many clients a node keeps.
func (c *spread) most() int { return (len(c.clients)*11 + 10*len(c.counts) - 1) / (10 * len(c.counts)) }

// minute makes each node with too many clients drain a tenth of the surplus, the first in an order,
// and reports whether there were any.
func (c *spread) minute(now int, order func([]*visit), next func(*visit) int) (moved bool) {
	for node := range c.counts {
		surplus := c.counts[node] - c.most()
		if surplus <= 0 {
			continue
		}
		var here []*visit
		for _, v := range c.clients {
			if v.node == node {
				here = append(here, v)
			}
		}
		order(here)
		for _, v := range here[:(surplus+9)/10] {
			c.leave(v)
			v.since = now
			c.enter(v, next(v))
		}
		moved = true
	}
	return moved
}

// shuffled is a random order.
func (c *spread) shuffled(all []*visit) {
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// ordered is the order in which a server sheds clients.
func (c *spread) ordered(now int) func([]*visit) {
	return func(all []*visit) {
		c.shuffled(all)
		as := func(v *visit) shedRank {
			recent := time.Duration(now-v.since)*time.Minute < settlingTime
			return shedRank{recent: recent, keyClients: c.has[v.node][v.key], keyHash: uint64(v.key)}
		}
		order := make(map[*visit]shedRank)
		for _, v := range all {
			order[v] = as(v)
		}
		slices.SortStableFunc(all, func(a, b *visit) int { return order[a].compare(order[b]) })
	}
}

// TestKeysConcentrate: after nodes have joined, clients become even with this shed order as with
// any other, in about as many minutes, and the tier holds at most 2 % more copies of keys than
// before, wherever clients connect next. With a random order it holds more.
func TestKeysConcentrate(t *testing.T) {
	for _, tier := range []struct {
		nodes, joined, keys int
		clientsOf           func(int) int
	}{
		{3, 1, 60, func(int) int { return 100 }},
		{10, 1, 200, func(int) int { return 20 }},
		{10, 5, 2000, func(int) int { return 5 }},
		{10, 2, 220, func(key int) int { return map[bool]int{true: 300, false: 3}[key < 20] }},
	} {
		for name, next := range map[string]func(*spread) func(*visit) int{
			"to the emptiest node": func(c *spread) func(*visit) int {
				return func(*visit) int { return slices.Index(c.counts, slices.Min(c.counts)) }
			},
			"to any node": func(c *spread) func(*visit) int {
				return func(*visit) int { return c.random.IntN(len(c.counts)) }
			},
		} {
			t.Run(fmt.Sprintf("%d+%d nodes, %d keys, %s", tier.nodes, tier.joined, tier.keys, name), func(t *testing.T) {
				run := func(ordered bool) (before, after, minutes int) {
					c := spreadClients(tier.nodes, tier.joined, tier.keys, tier.clientsOf)
					before = c.copies()
					for ; ; minutes++ {
						order := c.shuffled
						if ordered {
							order = c.ordered(minutes)
						}
						if !c.minute(minutes, order, next(c)) {
							return before, c.copies(), minutes
						}
					}
				}
				before, chance, slow := run(false)
				_, after, minutes := run(true)
				t.Logf("%d copies of keys before, %d after; by chance %d", before, after, chance)
				if after*100 > before*102 || after >= chance || minutes > 2*slow {
					t.Errorf("%d copies of keys became %d in %d minutes, by chance %d in %d", before, after, minutes, chance, slow)
				}
			})
		}
	}
}

// TestSentAwayRarely: if a load balancer returns clients to the node that drained them, none is
// drained again within ten minutes while there are others.
func TestSentAwayRarely(t *testing.T) {
	c := spreadClients(1, 1, 100, func(key int) int { return 1 + key%20 })
	const minutes = 60
	times := make(map[*visit]int)
	for now := range minutes {
		c.minute(now, c.ordered(now), func(v *visit) int {
			if last, ok := times[v]; ok && now-last < 10 {
				t.Fatalf("a client of key %d was sent away in minute %d and in minute %d", v.key, last, now)
			}
			times[v] = now
			return v.node
		})
	}
	if len(times) == 0 {
		t.Fatal("nobody was sent away")
	}
}

// TestShedByKey: clients of keys with few clients on this node leave first, all clients of a key
// together, and not those that just connected.
func TestShedByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := pair(t)
		var clients []*roamer
		for key, n := range map[string]int{"many": 6, "few": 2, "some": 4} {
			for range n {
				clients = append(clients, roamAs(t, insecure.NewCredentials(), "pick_first", key, nodes[0], nodes[1]))
			}
		}
		settle(t, clients, nodes)
		time.Sleep(settlingTime) //nolint:forbidigo // virtual time
		late := roamAs(t, insecure.NewCredentials(), "pick_first", "late", nodes[0], nodes[1])
		clients = append(clients, late)
		settle(t, clients, nodes)
		left := func() (keys map[string]int) {
			keys = make(map[string]int)
			for _, c := range clients {
				if c.where() == "node-0" {
					keys[c.key]++
				}
			}
			return keys
		}
		for _, step := range []struct {
			send int
			want map[string]int
		}{
			{2, map[string]int{"many": 6, "some": 4, "late": 1}},
			{4, map[string]int{"many": 6, "late": 1}},
		} {
			if n := nodes[0].srv.Shed(step.send, nodes[0].srv.Count(), "too many here"); n != step.send {
				t.Fatalf("%d were sent away, expected %d", n, step.send)
			}
			nodes[0].srv.Limit(1, "too many here") // so that they do not return
			time.Sleep(drainTime + time.Minute)    //nolint:forbidigo // virtual time
			settle(t, clients, nodes)
			if got := left(); fmt.Sprint(got) != fmt.Sprint(step.want) {
				t.Errorf("%v are left, expected %v", got, step.want)
			}
		}
	})
}

// TestCopiesOfKeys: the number of nodes that hold a key whose clients connect at random is as in
// docs/operate/sizing.md.
func TestCopiesOfKeys(t *testing.T) {
	text, err := os.ReadFile("../docs/operate/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`\| anywhere, at random \| [^|]* \| ([\d.]+) \| ([\d.]+) \|`).FindSubmatch(text)
	if row == nil {
		t.Fatal("docs/operate/sizing.md has no row of clients that connect at random: has the form changed?")
	}
	const keys, clients = 2000, 20
	for i, nodes := range []int{10, 100} {
		says, err := strconv.ParseFloat(string(row[i+1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		c := spreadClients(nodes, 0, keys, func(int) int { return clients })
		if each := float64(c.copies()) / keys; each < says*0.99 || each > says*1.01 {
			t.Errorf("with %d nodes a key is on %.2f of them, docs/operate/sizing.md says %.1f", nodes, each, says)
		}
	}
}
