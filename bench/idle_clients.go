package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"xdsrelay/bench/control"
	"xdsrelay/relay/resource"
)

// idleClients is the process of all clients of a run.
type idleClients struct {
	spec    idleSpec
	ctx     context.Context
	cancel  context.CancelFunc
	clients []*idleClient
	done    sync.WaitGroup
}

// idleClient is one client: a connection of its own with one stream. It is
// owned by its receiver once it has subscribed.
type idleClient struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream
	delta  bool
	held   map[string]uint64 // by type and name
	sum    holding

	mu sync.Mutex
	// Guarded by mu.
	now     holding
	err     error
	changed chan struct{} // closed when now or err changes
}

func newIdleClients(spec idleSpec) (handle func(order) (reply, error), end func(), err error) {
	if err := control.OpenFiles(spec.Clients + 100); err != nil {
		return nil, nil, err
	}
	c := &idleClients{spec: spec}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c.handle, c.end, nil
}

func (c *idleClients) handle(o order) (reply, error) {
	ctx, cancel := context.WithTimeout(c.ctx, 2*time.Minute)
	defer cancel()
	switch o.Do {
	case "open":
		return reply{}, c.open(ctx)
	case "subscribe":
		return reply{}, c.subscribe()
	case "await":
		want := expectedHolding(c.spec.Resources, o.Count)
		for i, client := range c.clients {
			if err := client.await(ctx, want); err != nil {
				return reply{}, fmt.Errorf("client %d: %w", i, err)
			}
		}
		return reply{}, nil
	}
	return reply{}, fmt.Errorf("unknown order %q", o.Do)
}

func (c *idleClients) end() {
	c.cancel()
	for _, client := range c.clients {
		_ = client.conn.Close()
	}
	c.done.Wait()
}

// open opens all streams, a few at a time so that the listener's backlog is
// never full.
func (c *idleClients) open(ctx context.Context) error {
	c.clients = make([]*idleClient, c.spec.Clients)
	errs := make([]error, c.spec.Clients)
	slots := make(chan struct{}, 64)
	var opening sync.WaitGroup
	for i := range c.clients {
		slots <- struct{}{}
		opening.Go(func() {
			defer func() { <-slots }()
			c.clients[i], errs[i] = c.openOne(ctx)
		})
	}
	opening.Wait()
	return errors.Join(errs...)
}

func (c *idleClients) openOne(ctx context.Context) (*idleClient, error) {
	client := &idleClient{delta: c.spec.Delta, held: make(map[string]uint64), changed: make(chan struct{})}
	var err error
	client.conn, err = grpc.NewClient("passthrough:///"+c.spec.Addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		return nil, err
	}
	client.conn.Connect()
	for state := client.conn.GetState(); state.String() != "READY"; state = client.conn.GetState() {
		if !client.conn.WaitForStateChange(ctx, state) {
			return client, fmt.Errorf("connect to %s: %w", c.spec.Addr, ctx.Err())
		}
	}
	method := "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	switch {
	case c.spec.Server == ServerFloor:
		method = "/" + floorService + "/Stream"
	case c.spec.Delta:
		method = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	}
	client.stream, err = client.conn.NewStream(c.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	return client, err
}

// subscribe asks for all clusters and, by their names, for the endpoints.
func (c *idleClients) subscribe() error {
	names := make([]string, c.spec.Resources)
	for i := range names {
		names[i] = idleName(i)
	}
	node := &corev3.Node{Id: idleNode, Cluster: idleCluster}
	var requests [][]byte
	for _, t := range idleTypes() {
		r := request{TypeURL: t.URL, Node: node}
		if !t.FullState {
			r.Names = names
		}
		requests = append(requests, r.encode(c.spec.Delta))
		node = nil
	}
	for _, client := range c.clients {
		for _, r := range requests {
			if err := client.stream.SendMsg(r); err != nil {
				return fmt.Errorf("subscribe: %w", err)
			}
		}
		c.done.Go(func() { client.receive(names) })
	}
	return nil
}

// receive takes responses and acknowledges them until the stream ends.
func (c *idleClient) receive(names []string) {
	for {
		var b []byte
		err := c.stream.RecvMsg(&b)
		if err == nil {
			err = c.apply(b, names)
		}
		c.mu.Lock()
		c.now, c.err = c.sum, err
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// apply takes over one response and acknowledges it.
func (c *idleClient) apply(b []byte, names []string) error {
	decode := func(b []byte) (*resource.Response, error) { return resource.DecodeSotW(b, nil) }
	if c.delta {
		decode = resource.DecodeDelta
	}
	r, err := decode(b)
	if err != nil {
		return err
	}
	if len(r.Invalid)+len(r.Removed) > 0 {
		return fmt.Errorf("the response has %d bad and %d removed resources, expected none", len(r.Invalid), len(r.Removed))
	}
	for _, res := range r.Resources {
		key := r.Type.URL + res.Name
		c.sum.sub(c.held[key])
		c.held[key] = hashOf(res.Name, res.Body)
		c.sum.add(res.Name, res.Body)
	}
	ack := request{TypeURL: r.Type.URL, Version: r.Version, Nonce: r.Nonce}
	if !c.delta && !r.Type.FullState {
		ack.Names = names
	}
	return c.stream.SendMsg(ack.encode(c.delta))
}

// await waits until the client holds just what it should.
func (c *idleClient) await(ctx context.Context, want holding) error {
	for {
		c.mu.Lock()
		now, err, changed := c.now, c.err, c.changed
		c.mu.Unlock()
		switch {
		case err != nil:
			return err
		case now == want:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("it does not hold what it should: %w", ctx.Err())
		}
	}
}

// request is what a client says, in either variant.
type request struct {
	TypeURL, Version, Nonce string
	Names                   []string
	Node                    *corev3.Node
}

func (r *request) encode(delta bool) []byte {
	var m proto.Message = &discoveryv3.DiscoveryRequest{
		TypeUrl: r.TypeURL, VersionInfo: r.Version, ResponseNonce: r.Nonce, ResourceNames: r.Names, Node: r.Node,
	}
	if delta {
		m = &discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: r.TypeURL, ResponseNonce: r.Nonce, ResourceNamesSubscribe: r.Names, Node: r.Node,
		}
	}
	b, err := proto.Marshal(m)
	if err != nil {
		panic("bench: " + err.Error()) // a message that we built ourselves
	}
	return b
}
