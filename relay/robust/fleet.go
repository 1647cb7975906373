package robust

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/robust/origin"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

// Fleet is clients of all four variants, spread over the keys, that go to a random
// node whenever they have no stream, and record what they see.
type Fleet struct {
	to      *record.Recorder // fixed
	nodes   []*Node          // fixed
	clients []*xdstest.Auto  // fixed
	keys    []string         // fixed; of each client
	names   []string         // fixed; of each client

	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

// newFleet starts clients: client i has key i modulo their number, and the variant
// that follows from the rest.
func newFleet(t xdstest.TB, to *record.Recorder, nodes []*Node, keys []string, count, size int, seed uint64) *Fleet {
	t.Helper()
	f := &Fleet{to: to, nodes: nodes, random: rand.New(rand.NewPCG(seed, 1))}
	for i := range count {
		f.keys = append(f.keys, keys[i%len(keys)])
		f.clients = append(f.clients, f.start(t, i, f.keys[i], i/len(keys), size))
	}
	return f
}

// start starts one client. Those with a stream for all types ask for all clusters
// and listeners, and by name for endpoints and routes; the others do the same for
// one type.
func (f *Fleet) start(t xdstest.TB, i int, key string, sort, size int) *xdstest.Auto {
	t.Helper()
	variant := xdstest.Variant{Delta: sort%2 == 0}
	types := origin.Types[:]
	if sort%4 >= 2 {
		typeURL := origin.Types[sort/4%len(origin.Types)]
		variant.Service, types = typeURL, []string{typeURL}
	}
	wants := make(map[string][]string)
	for _, typeURL := range types {
		wants[typeURL] = nil
		if typeURL == xdstest.EndpointType || typeURL == xdstest.RouteType {
			wants[typeURL] = origin.Universe(typeURL, size)
		}
	}
	name := fmt.Sprintf("%s-%d", variant, i)
	f.names = append(f.names, name)
	f.to.Add(record.Event{Kind: record.ClientNew, Client: name, Key: key, Delta: variant.Delta, Wants: wants})
	stream := 0 // the client's goroutine's
	a := xdstest.StartAuto(t, xdstest.AutoConfig{
		Variant: variant, Node: xdstest.Node(name, key), Next: f.next,
		Watch: func(e xdstest.AutoEvent) { stream = f.watch(name, key, stream, e) },
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
	})
	for _, typeURL := range types {
		a.Subscribe(typeURL, wants[typeURL]...)
	}
	return a
}

// isDelta tells a client's variant by its name.
func isDelta(client string) bool { return strings.HasPrefix(client, "delta-") }

// next is where a client goes next.
func (f *Fleet) next() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[f.random.IntN(len(f.nodes))].Addr()
}

// watch records what a client sees, and returns the number of its stream.
func (f *Fleet) watch(client, key string, stream int, e xdstest.AutoEvent) int {
	line := record.Event{Client: client, Key: key, Stream: stream, Node: f.nameOf(e.Addr)}
	switch {
	case e.Frame != nil:
		line.Kind, line.Type, line.Delta, line.Version = record.ClientGot, e.Frame.TypeURL, e.Frame.Delta, e.Frame.Version
		line.Resources, line.Removed, line.Bytes = origin.Resources(e.Frame), e.Frame.Removed, proto.Size(e.Frame.Raw)
		for _, failed := range e.Frame.Errors {
			line.Errors = append(line.Errors, failed.GetResourceName().GetName())
		}
	case e.Ended:
		line.Kind, line.Own, line.Unserved = record.ClientEnd, e.Own, status.Code(e.Err) == codes.Unavailable
		line.Why = fmt.Sprint(e.Err)
	default:
		stream = f.to.Stream()
		line.Kind, line.Stream = record.ClientOpen, stream
	}
	f.to.Add(line)
	return stream
}

func (f *Fleet) nameOf(addr string) string {
	for _, n := range f.nodes {
		if n.Addr() == addr {
			return n.Name()
		}
	}
	return addr
}

// Move makes a share of the clients leave their stream and go to any node.
func (f *Fleet) Move(share float64) {
	for _, a := range f.clients {
		f.mu.Lock()
		moves := f.random.Float64() < share
		f.mu.Unlock()
		if moves {
			a.Reconnect()
		}
	}
}

// Leave makes all clients of a key leave their streams, until Return.
func (f *Fleet) Leave(key string) {
	f.each(key, record.ClientAway, (*xdstest.Auto).Disconnect)
}

// Return lets them come back.
func (f *Fleet) Return(key string) {
	f.each(key, record.ClientBack, (*xdstest.Auto).Connect)
}

func (f *Fleet) each(key string, kind record.Kind, do func(*xdstest.Auto)) {
	for i, a := range f.clients {
		if f.keys[i] == key {
			f.to.Add(record.Event{Kind: kind, Client: f.names[i], Key: key})
			do(a)
		}
	}
}

// Violations lists the breaches of protocol that clients met.
func (f *Fleet) Violations() (all []string) {
	for _, a := range f.clients {
		all = append(all, a.Violations()...)
	}
	return all
}
