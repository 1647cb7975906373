package fanout

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/conversation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// fleet is a world whose streams the test flushes.
type fleet struct {
	*world
	streams []*stream
	calls   []*fakeCall
}

// newFleet makes clients of a wildcard on a table with the given number of clusters. They have
// acknowledged all of it. Woken subscriptions are ignored.
func newFleet(t xdstest.TB, clients, clusters int, delta bool, change ...func(*Config)) *fleet {
	t.Helper()
	quiet := func(c *Config) { c.Pool.Close() }
	f := &fleet{world: newSilentWorld(t, append(change, quiet)...)}
	first := resource.Request{TypeURL: cds}
	node, err := proto.Marshal(xdstest.Node("client", "test-cluster"))
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	first.Node = node
	for range clients {
		call := &fakeCall{}
		s := &stream{srv: f.srv, form: form{delta: delta}, caller: callerOf(call), nonces: 1000}
		if err := errors.Join(f.srv.add(s), s.identify(first.Node), s.receive(&first)); err != nil {
			t.Fatalf("a client was refused: %v", err)
		}
		f.streams, f.calls = append(f.streams, s), append(f.calls, call)
	}
	t.Cleanup(func() {
		for _, s := range f.streams {
			f.srv.remove(s)
		}
	})
	f.asked(cds, "*")
	u := cache.Update{Type: resource.TypeOf(cds), Full: true, Version: "v0"}
	for i := range clusters {
		u.Resources = append(u.Resources, clusterOf(i, 0))
	}
	f.origin().Apply(u)
	f.flush()
	for f.streams[0].types[0].Phase == conversation.Awaiting {
		f.ack(t) // a large state is sent in parts (B40), each after the ACK of the one before
		f.flush()
	}
	return f
}

// clusterOf returns resource i of 1 KiB.
func clusterOf(i, v int) *resource.Resource {
	body := fmt.Appendf(nil, "\n\x04type\x12\xfc\x07%08d%s", v, strings.Repeat("x", 1012))
	return resource.New(resource.Resource{Name: fmt.Sprintf("cluster-%06d", i), Body: body})
}

func (f *fleet) flush() {
	for _, s := range f.streams {
		s.Flush()
	}
}

// ack answers every frame and checks that all clients got the same body.
func (f *fleet) ack(t xdstest.TB) {
	t.Helper()
	shared := unsafe.SliceData(f.calls[0].last.Body)
	for i := range f.streams {
		if unsafe.SliceData(f.calls[i].last.Body) != shared {
			t.Fatalf("client %d has a body of its own", i)
		}
	}
	f.answer(t)
}

// answer acknowledges every client's newest frame.
func (f *fleet) answer(t xdstest.TB) {
	t.Helper()
	for _, s := range f.streams {
		r := resource.Request{TypeURL: cds, Nonce: []byte(nonceOf(s.types[0]))}
		if err := s.receive(&r); err != nil {
			t.Fatalf("an ACK was refused: %v", err)
		}
	}
}

func (f *fleet) touch(v int) {
	f.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: []*resource.Resource{clusterOf(0, v)}})
}

// The cost of an update for one more client: the frame, its tail, the nonce. The body is built
// once, and nothing of it is copied.
func TestCostOfOneMoreClient(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"": func(*Config) {},
		"metrics": func(c *Config) {
			c.Meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())).Meter("test")
		},
	} {
		for _, delta := range []bool{false, true} {
			const runs = 200
			f := newFleet(t, runs+1, 100, delta, change)
			f.touch(1)
			built, i := f.srv.bodies.Built(), 0
			got := testing.AllocsPerRun(runs, func() {
				f.streams[i].Flush()
				i++
			})
			if n := f.srv.bodies.Built() - built; n != 1 {
				t.Errorf("%d bodies were built for %d clients", n, i)
			}
			if got > 2 {
				t.Errorf("one more client costs %v allocations (delta %t, %q), at most 2 are meant", got, delta, name)
			}
			f.ack(t)
			if f.calls[0].sent != 2 || f.calls[runs].sent != 2 {
				t.Errorf("the first client got %d frames, the last %d", f.calls[0].sent, f.calls[runs].sent)
			}
		}
	}
}

// The cost of an ACK from its bytes to the client's new position: no allocation, however many names
// it has.
func TestCostOfAnAck(t *testing.T) {
	for _, delta := range []bool{false, true} {
		for _, names := range []int{0, 10, 1000} {
			if delta && names > 0 {
				continue // later ACKs have no names
			}
			f := newFleet(t, 1, 10, delta)
			if got := testing.AllocsPerRun(100, acker(t, f, names)); got > 0 {
				t.Errorf("an ACK with %d names costs %v allocations (delta %t), none are meant", names, got, delta)
			}
		}
	}
}

// The cost of a client with the same names as another one: its state, and nothing per name.
func TestCostOfTheSameNames(t *testing.T) {
	const runs = 20
	for _, delta := range []bool{false, true} {
		cost := func(names int) float64 {
			f := newFleet(t, runs+2, 10, delta)
			data := requestBytes(t, delta, resource.EndpointURL, names, 0)
			i := 0
			first := func() {
				s := f.streams[i]
				if _, err := s.Request(data); err != nil {
					t.Fatalf("a client was refused: %v", err)
				}
				i++
			}
			first() // must be subscribed upstream
			return testing.AllocsPerRun(runs, first)
		}
		if few, many := cost(10), cost(1000); many > few {
			t.Errorf("%v allocations for 1000 names, %v for 10 (delta %t): it should not depend on them", many, few, delta)
		}
	}
}

// The memory of an idle stream with two types, besides the transport's share: about a kilobyte,
// however many resources there are.
func TestCostOfAnIdleStream(t *testing.T) {
	heap := func() int64 {
		var m runtime.MemStats
		for range 2 { // pools release what they hold at the second garbage collection
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	cost := func(delta bool, events, most int64) {
		live := func(clients int) int64 {
			before := heap()
			f := newFleet(t, clients, 100, delta, func(c *Config) { c.EventBytes = int(events) })
			data := requestBytes(t, delta, resource.EndpointURL, 1000, 0)
			for i, s := range f.streams {
				if _, err := s.Request(data); err != nil {
					t.Fatalf("a client was refused: %v", err)
				}
				f.calls[i].last = nil
			}
			defer runtime.KeepAlive(f)
			return heap() - before
		}
		const more = 1000
		live(1) // made once
		each := int64(math.MaxInt64)
		for try := 0; try < 3 && each > most; try++ { // timers of other tests still run
			one := live(1)
			each = min(each, (live(1+more)-one)/more)
			t.Logf("%d bytes live for each idle stream (delta %t, at most %d of events), with what the test adds", each, delta, events)
		}
		if each > most {
			t.Errorf("%d bytes live for each idle stream (delta %t, at most %d of events), at most %d are meant", each, delta, events, most)
		}
	}
	for _, delta := range []bool{false, true} {
		cost(delta, 0, 1300)
		cost(delta, 512, 1300+80)
	}
}

// acker returns a function that processes the same ACK again and again.
func acker(t xdstest.TB, f *fleet, names int) func() {
	s := f.streams[0]
	ts := s.types[0]
	data := requestBytes(t, s.delta, cds, names, ts.Nonce)
	take := func() {
		if _, err := s.Request(data); err != nil {
			t.Fatalf("the request was refused: %v", err)
		}
	}
	take() // it has names that were not subscribed yet
	if ts.Nonce != 1001 {
		t.Fatalf("the client was told something: nonce %d", ts.Nonce)
	}
	return func() {
		ts.Phase = conversation.Awaiting
		if take(); ts.Unanswered() {
			t.Fatalf("the ACK was not taken")
		}
	}
}

// requestBytes returns a request with the given number of names, as the transport passes it. A
// nonce of 0 means none.
func requestBytes(t xdstest.TB, delta bool, url string, names int, nonce uint64) []byte {
	t.Helper()
	list, quoted, version := make([]string, names), "", ""
	for i := range list {
		list[i] = fmt.Sprintf("a-name-of-usual-length-%d", i)
	}
	if nonce != 0 {
		quoted, version = strconv.FormatUint(nonce, 10), "d41d8cd98f00b204e9800998ecf8427e"
	}
	var m proto.Message = &deltaRequest{TypeUrl: url, ResponseNonce: quoted, ResourceNamesSubscribe: list}
	if !delta {
		m = &discoveryv3.DiscoveryRequest{TypeUrl: url, ResponseNonce: quoted, VersionInfo: version, ResourceNames: list}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}
