package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// fleet is clients of all four variants, and polling clients, on machines of their own. A client
// goes through the nodes one after the other until one serves it.
type fleet struct {
	world   *World
	clients []*client
	pollers []*poller
}

// client is one of them.
type client struct {
	*xdstest.Auto

	// Fixed.
	fleet     *fleet
	name, key string
	delta     bool
	wants     map[string][]string // names by type URL; none means all
	addrs     []string            // of the nodes

	mu   sync.Mutex
	next int // guarded by mu: which node is next

	stream int                            // the client's goroutine's
	has    map[resourceID]record.Resource // the client's goroutine's; what it has accepted, if the plan has rollouts
	away   bool                           // the world's goroutine's
}

// add adds a client, whose variant and subscriptions follow from a number: those with a
// stream for all types ask for all clusters and listeners, and by name for endpoints and
// routes; the others do the same for one type.
func (f *fleet) add(key string, sort int) {
	w := f.world
	variant := xdstest.Variant{Delta: sort%2 == 0}
	types := origin.Types[:]
	if sort%4 >= 2 {
		typeURL := origin.Types[sort/4%len(origin.Types)]
		variant.Service, types = typeURL, []string{typeURL}
	}
	i := len(f.clients)
	c := &client{fleet: f, name: fmt.Sprintf("%s-%d", variant, i), key: key, delta: variant.Delta, wants: make(map[string][]string)}
	for _, typeURL := range types {
		c.wants[typeURL] = nil
		if !xdstest.FullState(typeURL) {
			c.wants[typeURL] = origin.Universe(typeURL, w.plan.Size)
		}
	}
	for n := range w.nodes {
		c.addrs = append(c.addrs, w.nodes[n].at(clientPort))
	}
	random := rand.New(rand.NewPCG(w.plan.Seed, uint64(i)))
	random.Shuffle(len(c.addrs), func(a, b int) { c.addrs[a], c.addrs[b] = c.addrs[b], c.addrs[a] })
	w.to.Add(record.Event{Kind: record.ClientNew, Client: c.name, Key: key, Delta: c.delta, Wants: c.wants})
	host := w.network.memory.NewHost(clientsHost, fmt.Sprintf("127.1.%d.%d", i/250, 1+i%250))
	c.Auto = xdstest.StartAuto(w.t, xdstest.AutoConfig{
		Variant: variant, Node: xdstest.Node(c.name, key), Next: c.where, Watch: c.watch, Backoff: time.Second, Reject: c.reject,
		DialOptions: []grpc.DialOption{host.Option(), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 10 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		})},
	})
	f.clients = append(f.clients, c)
	for _, typeURL := range types {
		c.Subscribe(typeURL, c.wants[typeURL]...)
	}
}

// where is where the client tries next.
func (c *client) where() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	return c.addrs[c.next%len(c.addrs)]
}

// watch records what the client sees.
func (c *client) watch(e xdstest.AutoEvent) {
	to := c.fleet.world.to
	line := record.Event{Client: c.name, Key: c.key, Stream: c.stream, Node: c.fleet.nameOf(e.Addr)}
	switch {
	case e.Frame != nil:
		line.Kind, line.Type, line.Delta, line.Version = record.ClientGot, e.Frame.TypeURL, e.Frame.Delta, e.Frame.Version
		line.Resources, line.Removed = c.accepted(e, origin.Resources(e.Frame)), e.Frame.Removed
		for _, failed := range e.Frame.Errors {
			line.Errors = append(line.Errors, failed.GetResourceName().GetName())
		}
	case e.Ended:
		line.Kind, line.Own, line.Unserved = record.ClientEnd, e.Own, status.Code(e.Err) == codes.Unavailable
		line.Why = fmt.Sprint(e.Err)
	default:
		c.stream = to.Stream()
		line.Kind, line.Stream = record.ClientOpen, c.stream
	}
	to.Add(line)
}

func (f *fleet) nameOf(addr string) string {
	for _, n := range f.world.nodes {
		if n.at(clientPort) == addr || n.at(pollPort) == addr {
			return n.name
		}
	}
	return addr
}

// move makes some of the clients go on at another node.
func (f *fleet) move(some func() bool) {
	for _, c := range f.clients {
		if some() {
			c.Reconnect()
		}
	}
	for _, p := range f.pollers {
		if some() {
			p.order(moves)
		}
	}
}

// leave makes the clients of a key, or all, leave their streams; back lets them return.
func (f *fleet) leave(key string) {
	for _, c := range f.clients {
		if (key == "" || c.key == key) && !c.away {
			c.away = true
			f.world.to.Add(record.Event{Kind: record.ClientAway, Client: c.name, Key: c.key})
			c.Disconnect()
		}
	}
	for _, p := range f.pollers {
		if (key == "" || p.key == key) && !p.away {
			p.away = true
			f.world.to.Add(record.Event{Kind: record.ClientAway, Client: p.name, Key: p.key})
			p.order(leaves)
		}
	}
}

func (f *fleet) back(key string) {
	for _, c := range f.clients {
		if (key == "" || c.key == key) && c.away {
			c.away = false
			f.world.to.Add(record.Event{Kind: record.ClientBack, Client: c.name, Key: c.key})
			c.Connect()
		}
	}
	for _, p := range f.pollers {
		if (key == "" || p.key == key) && p.away {
			p.away = false
			f.world.to.Add(record.Event{Kind: record.ClientBack, Client: p.name, Key: p.key})
			p.order(returns)
		}
	}
}

// close ends all clients.
func (f *fleet) close() {
	for _, c := range f.clients {
		c.Close()
	}
	for _, p := range f.pollers {
		p.close()
	}
}
