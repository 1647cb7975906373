package robust

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	t       xdstest.TB       // fixed
	to      *record.Recorder // fixed
	all     []*Node          // fixed; also those that do not run now
	size    int              // fixed; names of each type and key
	clients []*xdstest.Auto
	keys    []string        // of each client
	names   []string        // of each client
	guests  []*xdstest.Auto // those of clients that stay for a round
	started int             // clients

	violations []string // of clients that have departed

	mu sync.Mutex
	// rejects are the serials of the origin above which clients of a key reject clusters and listeners.
	rejects map[string]int    // guarded by mu
	nodes   []*Node           // guarded by mu; where clients go
	random  *rand.Rand        // guarded by mu
	at      map[string]string // guarded by mu; the node that each client opened its last stream at
}

// newFleet starts clients: client i has key i modulo their number, and the variant
// that follows from the rest. They go to the nodes that all lists until GoTo says more.
func newFleet(t xdstest.TB, to *record.Recorder, all []*Node, keys []string, cfg Config) *Fleet {
	t.Helper()
	f := &Fleet{t: t, to: to, all: all, nodes: all[:cfg.Nodes], size: cfg.Size, random: rand.New(rand.NewPCG(cfg.Seed, 1)), at: make(map[string]string), rejects: make(map[string]int)}
	for i := range cfg.Clients {
		f.keys = append(f.keys, keys[i%len(keys)])
		a, name := f.start(f.keys[i], i/len(keys))
		f.clients, f.names = append(f.clients, a), append(f.names, name)
	}
	return f
}

// GoTo says to which nodes clients go from now on.
func (f *Fleet) GoTo(nodes []*Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = slices.Clone(nodes)
}

// Arrive starts clients of a key that hold nothing, one of each variant. They stay
// until Depart.
func (f *Fleet) Arrive(key string) {
	for sort := range 4 {
		a, name := f.start(key, sort)
		f.clients, f.keys, f.names = append(f.clients, a), append(f.keys, key), append(f.names, name)
		f.guests = append(f.guests, a)
	}
}

// Depart ends the clients that Arrive started.
func (f *Fleet) Depart() {
	first := len(f.clients) - len(f.guests)
	for i, a := range f.guests {
		f.to.Add(record.Event{Kind: record.ClientAway, Client: f.names[first+i], Key: f.keys[first+i]})
		a.Close()
	}
	for _, a := range f.guests {
		f.violations = append(f.violations, a.Violations()...)
	}
	f.clients, f.keys, f.names, f.guests = f.clients[:first], f.keys[:first], f.names[:first], nil
}

// start starts one client. Those with a stream for all types ask for all clusters
// and listeners, and by name for endpoints and routes; the others do the same for
// one type.
func (f *Fleet) start(key string, sort int) (a *xdstest.Auto, name string) {
	f.t.Helper()
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
			wants[typeURL] = origin.Universe(typeURL, f.size)
		}
	}
	name = fmt.Sprintf("%s-%d", variant, f.started)
	f.started++
	f.to.Add(record.Event{Kind: record.ClientNew, Client: name, Key: key, Delta: variant.Delta, Wants: wants})
	stream := 0 // the client's goroutine's
	a = xdstest.StartAuto(f.t, xdstest.AutoConfig{
		Variant: variant, Node: xdstest.Node(name, key), Next: f.next,
		Watch: func(e xdstest.AutoEvent) { stream = f.watch(name, key, stream, e) },
		Nack:  func(frame *xdstest.Frame) string { return f.nack(key, frame) },
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		})},
	})
	for _, typeURL := range types {
		a.Subscribe(typeURL, wants[typeURL]...)
	}
	return a, name
}

// reject makes clients of a key reject clusters and listeners with serials above one; 0 ends that.
func (f *Fleet) reject(key string, above int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rejects[key] = above
}

// nack is why a client rejects a response; empty if it does not.
func (f *Fleet) nack(key string, frame *xdstest.Frame) string {
	f.mu.Lock()
	after := f.rejects[key]
	f.mu.Unlock()
	if after == 0 {
		return ""
	}
	for _, r := range origin.Resources(frame) {
		if isStaged(frame.TypeURL) && r.Serial > after {
			return r.Name + " is bad"
		}
	}
	return ""
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
		f.mu.Lock()
		f.at[client] = line.Node
		f.mu.Unlock()
	}
	f.to.Add(line)
	return stream
}

func (f *Fleet) nameOf(addr string) string {
	for _, n := range f.all {
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
func (f *Fleet) Violations() []string {
	all := slices.Clone(f.violations)
	for _, a := range f.clients {
		all = append(all, a.Violations()...)
	}
	return all
}
