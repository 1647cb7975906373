package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// The two aggregated methods.
var (
	sotwMethod  = xdstest.SotW.Method()
	deltaMethod = xdstest.Delta.Method()
)

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

// dial makes a real gRPC client. Its connection comes with the first call.
func (s *stage) dial(t *testing.T, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	creds := insecure.NewCredentials()
	if s.bad != nil {
		creds = credentials.NewTLS(s.bad)
	}
	cc, err := grpc.NewClient("passthrough:///"+s.XDS, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{}), grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	if s.process != nil {
		go func() {
			<-s.process.ended
			_ = cc.Close() // nothing waits for a node that has ended
		}()
	}
	return cc
}

// call is a gRPC stream whose messages are bytes, and which reads as they come.
type call struct {
	grpc.ClientStream

	cancel context.CancelFunc
	ended  chan struct{} // closed at the end

	mu       sync.Mutex
	received [][]byte // guarded by mu
	err      error    // set before ended is closed
}

// open begins a stream, with metadata in pairs.
func open(t *testing.T, cc *grpc.ClientConn, method string, md ...string) *call {
	t.Helper()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), md...))
	gs, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.WaitForReady(true))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	c := &call{ClientStream: gs, cancel: cancel, ended: make(chan struct{})}
	go c.read()
	t.Cleanup(c.close)
	return c
}

func (c *call) read() {
	defer close(c.ended)
	for {
		var m []byte
		if err := c.RecvMsg(&m); err != nil {
			c.err = err
			return
		}
		c.mu.Lock()
		c.received = append(c.received, m)
		c.mu.Unlock()
	}
}

// close resets the stream and waits until nothing of it runs.
func (c *call) close() {
	c.cancel()
	<-c.ended
}

// count is how many messages have come.
func (c *call) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.received)
}

// send sends bytes or a message. An error means that the stream has ended.
func (c *call) send(m any) error {
	b, ok := m.([]byte)
	if !ok {
		b = encode(m.(proto.Message))
	}
	return c.SendMsg(b)
}

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// over reports whether the stream has ended.
func (c *call) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// refused waits until the stream has ended with a status whose message has all of
// some words in it.
func (c *call) refused(t *testing.T, want codes.Code, words ...string) {
	t.Helper()
	select {
	case <-c.ended:
	case <-time.After(xdstest.Patience):
		t.Fatalf("the stream goes on, expected %v %q", want, words)
	}
	refusedWith(t, c.err, want, words...)
}

func refusedWith(t *testing.T, err error, want codes.Code, words ...string) {
	t.Helper()
	got := status.Convert(err)
	if errors.Is(err, io.EOF) {
		got = status.New(codes.OK, "")
	}
	ok := got.Code() == want
	for _, word := range words {
		ok = ok && strings.Contains(got.Message(), word)
	}
	if !ok {
		t.Errorf("the stream ended with %v %q, expected %v and a message with %q", got.Code(), got.Message(), want, words)
	}
}

// respond waits for the n-th message and decodes it, where there is what to decode it to.
func (c *call) respond(t *testing.T, n int, to proto.Message) {
	t.Helper()
	xdstest.Eventually(t, fmt.Sprintf("response %d", n), func() bool { return c.count() >= n || c.over() })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.received) < n {
		t.Fatalf("the stream ended with %v after %d responses", c.err, len(c.received))
	}
	if to == nil {
		return
	}
	if err := proto.Unmarshal(c.received[n-1], to); err != nil {
		t.Fatal(err)
	}
}

// hello is the first request of a delta client of a key, for names of a type.
func hello(id, key, typeURL string, names ...string) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{Node: xdstest.Node(id, key), TypeUrl: typeURL, ResourceNamesSubscribe: names}
}

// theKey is one that good clients have, too, and theOther another of these.
var (
	theKey   = content.KeyName(0)
	theOther = content.KeyName(1)
)

// onlyOf fails the test if a response of the variant holds a resource of another key.
func (c *call) onlyOf(t *testing.T, key string, delta bool) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.received {
		var told []byte // all bytes that say something of resources that there are
		if delta {
			var r discoveryv3.DeltaDiscoveryResponse
			if err := proto.Unmarshal(b, &r); err != nil {
				t.Fatal(err)
			}
			for _, res := range r.GetResources() {
				told = append(told, encode(res)...)
			}
		} else {
			told = b
		}
		for k := range spec.Keys {
			// All names of a key begin with the key's.
			if name := content.KeyName(k); name != key && bytes.Contains(told, []byte(name+"/")) {
				t.Errorf("a client of %s was sent something of %s", key, name)
			}
		}
	}
}

// barrier waits until the node has served another client from start to end.
func barrier(t *testing.T, cc *grpc.ClientConn) {
	t.Helper()
	for range 2 {
		c := open(t, cc, deltaMethod)
		_ = c.send(hello("barrier", theKey, content.ClusterURL, "*"))
		c.respond(t, 1, &discoveryv3.DeltaDiscoveryResponse{})
		c.close()
	}
}
