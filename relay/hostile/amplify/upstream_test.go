package amplify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// controlPlane sends a node what a row says. It answers nothing by itself.
type controlPlane struct {
	address string
	streams chan *originStream     // those that were opened last, by method
	held    atomic.Pointer[string] // what it answers next when it is asked what it holds
}

// originStream is a stream of a node to the control plane.
type originStream struct {
	grpc.ServerStream

	method   string
	requests chan []byte   // closed at the end
	finish   chan struct{} // closed by the row that ends the stream
}

// startControlPlane serves every method that a node may call.
func startControlPlane(t *testing.T) *controlPlane {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &controlPlane{address: l.Addr().String(), streams: make(chan *originStream)}
	ctx, stop := context.WithCancel(context.Background())
	gs := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.MaxRecvMsgSize(1<<30), grpc.UnknownServiceHandler(func(_ any, ss grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(ss)
		if method == askMethod {
			return c.answerAsk(ss)
		}
		s := &originStream{ServerStream: ss, method: method, requests: make(chan []byte, 64), finish: make(chan struct{})}
		select {
		case c.streams <- s:
		case <-ctx.Done():
			return nil
		case <-ss.Context().Done():
			return nil
		}
		go s.receive()
		select {
		case <-ctx.Done():
		case <-s.finish:
		case <-ss.Context().Done():
		}
		return nil
	}))
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(l) })
	t.Cleanup(func() {
		stop()
		gs.Stop()
		serving.Wait()
	})
	return c
}

// answers is a control plane that has one cluster, whoever asks.
type answers struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (answers) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for n := 1; ; {
		r, err := s.Recv()
		if err != nil {
			return nil //nolint:nilerr // the node has ended its stream
		}
		if r.GetTypeUrl() != content.ClusterURL || r.GetResponseNonce() != "" {
			continue
		}
		err = s.Send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: content.ClusterURL, SystemVersionInfo: "1", Nonce: strconv.Itoa(n), Resources: []*discoveryv3.Resource{named["resources"].(*discoveryv3.Resource)},
		})
		if err != nil {
			return err
		}
		n++
	}
}

// startAnswers serves [answers] until the test ends, and returns its address.
func startAnswers(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(gs, answers{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(l) })
	t.Cleanup(func() {
		gs.Stop()
		serving.Wait()
	})
	return l.Addr().String()
}

// receive takes requests until the stream ends.
func (s *originStream) receive() {
	defer close(s.requests)
	for {
		var m []byte
		if s.RecvMsg(&m) != nil {
			return
		}
		select {
		case s.requests <- m:
		case <-s.Context().Done():
			return
		}
	}
}

// upstreamRows are the rows of what a control plane sends a node, in one variant, with a
// client that asks for clusters and reports load.
func upstreamRows(t *testing.T, n *node, c *controlPlane, variant xdstest.Variant, all bool) (rows []row) {
	t.Helper()
	cc := dial(t, n.XDS)
	stay(t, func(ctx context.Context) error { return subscribe(ctx, cc, fleetKey) })
	p := &upstream{c: c, surface: "control plane", nonce: 1_000_000_000} // no other part of a request is like a nonce
	if !variant.Delta {                                                  // reports are the same with both
		stay(t, func(ctx context.Context) error { return reportLoad(ctx, cc) })
		rows = append(rows, p.rows(lrsv3.LoadReportingService_StreamLoadStats_FullMethodName, (&lrsv3.LoadStatsResponse{}).ProtoReflect().Descriptor(), all, func(string) proto.Message {
			return &lrsv3.LoadStatsResponse{}
		})...)
	}
	response := func(nonce string) proto.Message {
		return &discoveryv3.DiscoveryResponse{TypeUrl: content.ClusterURL, VersionInfo: nonce, Nonce: nonce}
	}
	if variant.Delta {
		response = func(nonce string) proto.Message {
			return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: content.ClusterURL, SystemVersionInfo: nonce, Nonce: nonce}
		}
	}
	return append(rows, p.rows(variant.Method(), response("").ProtoReflect().Descriptor(), all, response)...)
}

// stay keeps a client connected until the test ends. It reads what it is sent: the node
// disconnects a client that does not, and then has nothing to ask the control plane for.
// A response that the client cannot read fails the test.
func stay(t *testing.T, client func(context.Context) error) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := client(ctx); ctx.Err() == nil && strings.Contains(fmt.Sprint(err), "failed to unmarshal") {
				t.Errorf("the node sends its clients what they cannot read: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() {
		end()
		running.Wait()
	})
}

// subscribe subscribes to clusters and acknowledges what the node sends.
func subscribe(ctx context.Context, cc *grpc.ClientConn, key string) error {
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(cc).DeltaAggregatedResources(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1<<30))
	if err != nil {
		return err
	}
	next := &discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.ClusterURL}
	for {
		if err := s.Send(next); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		r, err := s.Recv()
		if err != nil {
			return err
		}
		next = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()}
	}
}

// reportLoad opens a stream of load reports and reads the node's terms.
func reportLoad(ctx context.Context, cc *grpc.ClientConn) error {
	s, err := lrsv3.NewLoadReportingServiceClient(cc).StreamLoadStats(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1<<30))
	if err == nil {
		err = s.Send(&lrsv3.LoadStatsRequest{Node: nodeOf(fleetKey)})
	}
	for err == nil {
		_, err = s.Recv()
	}
	return err
}

// named are the parts of a response by their field, with a name: the node looks at the
// other fields only where there is one.
var named = map[protoreflect.Name]proto.Message{
	"resources":              &discoveryv3.Resource{Name: "c", Resource: &anypb.Any{TypeUrl: content.ClusterURL, Value: encode(&clusterv3.Cluster{Name: "c"})}},
	"resource_errors":        &discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: "c"}},
	"removed_resource_names": &discoveryv3.ResourceName{Name: "c"},
}

// upstream keeps the streams of a node by their method.
type upstream struct {
	c       *controlPlane
	surface string
	extra   []path // fields that a response has in addition to those of its descriptor
	now     map[string]*originStream
	nonce   int
	// visit makes the node open a stream for what is sent next, until end is called; nil
	// where it keeps one open.
	visit func(t *testing.T) (end func())
}

// stream is the node's stream of a method, which it has opened or will open again.
func (u *upstream) stream(t *testing.T, method string) *originStream {
	t.Helper()
	if u.now == nil {
		u.now = make(map[string]*originStream)
	}
	for u.now[method] == nil || u.now[method].Context().Err() != nil {
		select {
		case s := <-u.c.streams:
			u.take(t, s)
		case <-time.After(xdstest.Patience):
			t.Fatalf("the node does not call %s", method)
		}
	}
	return u.now[method]
}

// take keeps a stream that the node has opened, and takes the request with its node.
func (u *upstream) take(t *testing.T, s *originStream) {
	t.Helper()
	u.now[s.method] = s
	select {
	case <-s.requests:
	case <-time.After(xdstest.Patience):
		t.Fatalf("the node calls %s and asks for nothing", s.method)
	}
}

func (u *upstream) rows(method string, d protoreflect.MessageDescriptor, all bool, base func(nonce string) proto.Message) (rows []row) {
	for _, p := range append(fieldsOf(d), u.extra...) {
		for _, fill := range patternsFor(p.leaf(), all) {
			rows = append(rows, row{surface: u.surface, message: string(d.Name()), field: p.String(), pattern: fill.name, send: func(t *testing.T, size int) int {
				t.Helper()
				if u.visit != nil {
					defer u.visit(t)()
				}
				s := u.stream(t, method)
				u.nonce++
				b := append(encode(base(strconv.Itoa(u.nonce))), p.messageWith(named[p[0].Name()], fill, size)...)
				if err := s.SendMsg(b); err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				u.looked(t, s, base)
				return len(b)
			}})
		}
	}
	return rows
}

// looked waits until the node has looked at what it was sent: until it acknowledges the
// next response, or has ended the stream. Terms of load reports are not acknowledged: there
// the stream ends, and the node opens another one.
func (u *upstream) looked(t *testing.T, s *originStream, base func(nonce string) proto.Message) {
	t.Helper()
	u.nonce++
	nonce := strconv.Itoa(u.nonce)
	next := base(nonce)
	if _, loads := next.(*lrsv3.LoadStatsResponse); loads {
		close(s.finish)
		<-s.Context().Done()
		u.stream(t, s.method)
		return
	}
	_ = s.SendMsg(encode(next)) // an error says that the stream has ended
	patience := time.After(xdstest.Patience)
	for {
		select {
		case m, more := <-s.requests:
			if !more || bytes.Contains(m, []byte(nonce)) {
				return
			}
		case another := <-u.c.streams: // after one that broke, the type may be asked for apart
			u.take(t, another)
			return
		case <-patience:
			t.Fatalf("the node does not answer a response of %s", s.method)
		}
	}
}
