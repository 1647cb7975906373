package fanout

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// pair is two nodes with the same content.
func pair(t *testing.T, change ...func(*Config)) [2]*world {
	t.Helper()
	var nodes [2]*world
	network := xdstest.NewMemory()
	for i := range nodes {
		named := func(c *Config) { c.NodeName = fmt.Sprintf("node-%d", i) }
		w := newSilentWorld(t, append(change, named)...)
		w.net = network
		nodes[i] = w.listen()
		go w.answer(t.Context())
	}
	return nodes
}

// pairOverTLS is two nodes that accept only TLS, and the credentials of a client.
func pairOverTLS(t *testing.T) ([2]*world, credentials.TransportCredentials) {
	t.Helper()
	a := xdstest.NewAuthority(t, "a")
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{xdstest.PairOf(t, []string{"nodes"}, a.Issue)}})
	var nodes [2]*world
	network := xdstest.NewMemory()
	for i := range nodes {
		w := newSilentWorld(t, func(c *Config) { c.NodeName = fmt.Sprintf("node-%d", i) })
		w.net = network
		w.secure = func(raw net.Conn) (net.Conn, aggregation.Connection, error) {
			conn, auth, err := creds.ServerHandshake(raw)
			if err != nil {
				return nil, aggregation.Connection{}, err
			}
			info := auth.(credentials.TLSInfo)
			return conn, aggregation.Connection{TLS: &info}, nil
		}
		nodes[i] = w.listen()
		go w.answer(t.Context())
	}
	return nodes, credentials.NewTLS(a.ClientTLS(nil))
}

// answer gives each key of the world a cluster, like its control plane.
func (w *world) answer(ctx context.Context) {
	for {
		select {
		case f := <-w.feeds:
			go f.answer(w.t)
		case <-ctx.Done():
			return
		}
	}
}

func (f running) answer(t xdstest.TB) {
	for {
		select {
		case <-f.News():
			f.TakeDemand(true, true)
			f.Apply(cache.Update{Type: resource.TypeOf(cds), Version: "v1", Full: true, Resources: resources(t, cluster("a", 1))})
		case <-f.ctx.Done():
			return
		}
	}
}

// roamer is a client of several nodes that reopens its stream when it ends: at once if it had an
// answer, and after a pause otherwise, as C13 requires.
type roamer struct {
	key string // fixed
	mu  sync.Mutex
	// Guarded by mu.
	at     string   // the node of the last answer
	ends   []string // ends of its streams, by reason
	failed int      // ends of streams without an answer
}

// roam starts a client, which stops with the test.
func roam(t *testing.T, policy string, nodes ...*world) *roamer {
	t.Helper()
	return roamBy(t, insecure.NewCredentials(), policy, nodes...)
}

// roamBy is roam with credentials.
func roamBy(t *testing.T, creds credentials.TransportCredentials, policy string, nodes ...*world) *roamer {
	t.Helper()
	return roamAs(t, creds, policy, "k", nodes...)
}

// roamAs is roamBy for a key.
func roamAs(t *testing.T, creds credentials.TransportCredentials, policy, key string, nodes ...*world) *roamer {
	t.Helper()
	r := manual.NewBuilderWithScheme("roam")
	var list []resolver.Address
	for _, w := range nodes {
		list = append(list, resolver.Address{Addr: w.addr})
	}
	r.InitialState(resolver.State{Addresses: list})
	cc, err := grpc.NewClient("roam:///nodes", grpc.WithResolvers(r), nodes[0].net.Option(),
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultServiceConfig(fmt.Sprintf(`{"loadBalancingConfig":[{%q:{}}]}`, policy)))
	if err != nil {
		t.Fatal(err)
	}
	client := &roamer{key: key}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			if !client.stream(ctx, cc) {
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
		_ = cc.Close()
	})
	return client
}

// stream reports whether one stream had an answer before it ended.
func (r *roamer) stream(ctx context.Context, cc *grpc.ClientConn) (answered bool) {
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(cc).StreamAggregatedResources(ctx, grpc.WaitForReady(true))
	if err == nil {
		_ = s.Send(&discoveryv3.DiscoveryRequest{Node: xdstest.Node("n", r.key), TypeUrl: cds}) // Recv returns the reason
	}
	for err == nil {
		var res *discoveryv3.DiscoveryResponse
		if res, err = s.Recv(); err == nil {
			answered = true
			r.mu.Lock()
			r.at = res.GetControlPlane().GetIdentifier()
			r.mu.Unlock()
			_ = s.Send(&discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: res.GetVersionInfo(), ResponseNonce: res.GetNonce()})
		}
	}
	if ctx.Err() != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = append(r.ends, err.Error())
	if !answered {
		r.failed++
	}
	return answered
}

func (r *roamer) where() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// ended returns how the client's streams ended, and how many of them had no answer.
func (r *roamer) ended() (failed int, ends []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed, slices.Clone(r.ends)
}

// settle waits until each client has an answer and has acknowledged it.
func settle(t *testing.T, clients []*roamer, nodes [2]*world) {
	t.Helper()
	synctest.Wait()
	xdstest.Eventually(t, "all clients to have what there is", func() bool {
		quiet := 0
		for _, w := range nodes {
			for _, g := range w.srv.connections() {
				if g.quiet {
					quiet += g.clients
				}
			}
		}
		return quiet == len(clients)
	})
}

// TestShed: drained clients move to the other node, whichever way they choose among nodes, with and
// without TLS, and none of their streams fails (B42). A client with a list of nodes would return to
// the first one: that refuses its connection once.
func TestShed(t *testing.T) {
	for _, way := range []string{"pick_first", "round_robin", "pick_first over TLS"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy, secured := strings.CutSuffix(way, " over TLS")
				var nodes [2]*world
				creds := insecure.NewCredentials()
				if secured {
					nodes, creds = pairOverTLS(t)
				} else {
					nodes = pair(t)
				}
				var clients []*roamer
				for range 10 {
					clients = append(clients, roamBy(t, creds, policy, nodes[0], nodes[1]))
				}
				settle(t, clients, nodes)
				before := nodes[0].srv.Count()
				want := min(3, before)
				if got := nodes[0].srv.Shed(want, before, "too many here"); got != want {
					t.Fatalf("%d of %d were sent away", got, before)
				}
				time.Sleep(drainTime + time.Minute) //nolint:forbidigo // virtual time; connections that stayed open are cut
				settle(t, clients, nodes)
				if got := nodes[0].srv.Count(); got > before-want {
					t.Errorf("%d clients are there, of %d before", got, before)
				}
				var ends []string
				for _, c := range clients {
					failed, ended := c.ended()
					if failed > 0 {
						t.Errorf("a stream failed: %q", ended)
					}
					ends = append(ends, ended...)
				}
				if len(ends) != want || slices.ContainsFunc(ends, func(e string) bool { return !strings.Contains(e, "too many here") }) {
					t.Errorf("streams ended: %q", ends)
				}
			})
		})
	}
}

// TestShedBounds: no client is drained over the number, or with a response in flight, or twice.
func TestShedBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := w.open(true)
		one.Subscribe(cds)
		w.asked(cds, "*")
		w.serve("v1", cds, cluster("a", 1))
		frame := has(t, one.Recv(t), "a")
		synctest.Wait()
		if n := w.srv.Shed(1, 1, "why"); n != 0 {
			t.Fatal("a client was sent away with a response on its way")
		}
		one.Ack(frame)
		two := w.open(true) // on the same connection
		two.Subscribe(cds)
		two.Ack(has(t, two.Recv(t), "a"))
		synctest.Wait()
		if n := w.srv.Shed(1, 1, "why"); n != 0 {
			t.Fatal("a connection with two streams was sent away for one")
		}
		if n := w.srv.Shed(1, 2, "why"); n != 2 {
			t.Fatalf("%d were sent away", n)
		}
		if n := w.srv.Shed(1, 2, "why"); n != 0 {
			t.Fatalf("%d were sent away once more", n)
		}
		refusedWith(t, one, codes.Unavailable, "why")
		refusedWith(t, two, codes.Unavailable, "why")
		synctest.Wait()
		if n := w.srv.Count(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// TestLimit: a full node refuses new streams with a reason, and the client then connects to another
// node; open streams continue.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := pair(t)
		first := roam(t, "pick_first", nodes[0], nodes[1])
		settle(t, []*roamer{first}, nodes)
		nodes[0].srv.Limit(1, "too many here")
		refusedWith(t, nodes[0].open(true), codes.ResourceExhausted, "too many here")
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time, after which nobody is expected back
		second := roam(t, "pick_first", nodes[0], nodes[1])
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		settle(t, []*roamer{first, second}, nodes)
		if first.where() != "node-0" || second.where() != "node-1" {
			t.Errorf("they are at %s and %s", first.where(), second.where())
		}
		_, none := first.ended()
		failed, ends := second.ended()
		if len(none) > 0 || failed != 1 || !strings.Contains(ends[0], "too many here") {
			t.Errorf("streams ended: %q, %q", none, ends)
		}
		nodes[0].srv.Limit(0, "")
		third := roam(t, "pick_first", nodes[0], nodes[1])
		settle(t, []*roamer{first, second, third}, nodes)
		if third.where() != "node-0" {
			t.Errorf("the third is at %s", third.where())
		}
	})
}

// TestEndOldIdle: while no connection is old, EndOld does not allocate, however many clients there
// are.
func TestEndOldIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := pair(t, func(c *Config) { c.MaxConnectionAge = time.Hour })
		var clients []*roamer
		for range 20 {
			clients = append(clients, roam(t, "pick_first", nodes[0]))
		}
		settle(t, clients, nodes)
		if n := testing.AllocsPerRun(100, nodes[0].srv.EndOld); n > 2 {
			t.Errorf("%.0f allocations with %d clients, expected 2 at most", n, len(clients))
		}
	})
}

// TestEndOld: a connection that has reached its age is drained once its client has answered, or
// after AckTimeout; the client reconnects without a failure.
func TestEndOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const age = time.Hour
		nodes := pair(t, func(c *Config) { c.MaxConnectionAge, c.AckTimeout = age, age })
		client := roam(t, "pick_first", nodes[0], nodes[1])
		silent := nodes[0].open(true) // never acknowledges
		silent.Subscribe(cds)
		has(t, silent.Recv(t), "a")
		settle(t, []*roamer{client}, nodes)
		nodes[0].srv.EndOld()
		time.Sleep(age / 3) //nolint:forbidigo // virtual time
		nodes[0].srv.EndOld()
		synctest.Wait()
		if n := nodes[0].srv.Count(); n != 2 {
			t.Fatalf("%d streams are left before their age", n)
		}
		time.Sleep(age * 2 / 3) //nolint:forbidigo // virtual time
		nodes[0].srv.EndOld()
		settle(t, []*roamer{client}, nodes)
		if n := nodes[0].srv.Count(); n != 2 {
			t.Fatalf("%d streams are there, expected the one that has connected again and the silent one", n)
		}
		time.Sleep(age) //nolint:forbidigo // virtual time
		nodes[0].srv.EndOld()
		refusedWith(t, silent, codes.Unavailable, "age")
		if failed, ends := client.ended(); failed > 0 || len(ends) == 0 || client.where() != "node-0" {
			t.Errorf("streams ended: %q, at %s", ends, client.where())
		}
	})
}

// TestEndUnknown: if the listener is not a conn.Listener, only the streams end.
func TestEndUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSilentWorld(t)
		c := w.openFake(form{})
		if err := c.say(t, &discoveryv3.DiscoveryRequest{Node: xdstest.Node("n", "k"), TypeUrl: cds}); err != nil {
			t.Fatal(err)
		}
		go w.answer(t.Context())
		synctest.Wait()
		if err := c.say(t, &discoveryv3.DiscoveryRequest{TypeUrl: cds, VersionInfo: "v1", ResponseNonce: "1"}); err != nil {
			t.Fatal(err)
		}
		w.srv.EndOld() // its age is unknown
		if n := w.srv.Shed(1, 1, "why"); n != 1 {
			t.Fatalf("%d were sent away", n)
		}
		if err := c.end(); status.Code(err) != codes.Unavailable {
			t.Errorf("it ended %v", err)
		}
	})
}
