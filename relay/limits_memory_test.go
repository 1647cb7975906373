package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// asIs is a codec of encoded messages.
type asIs struct{}

func (asIs) Name() string                    { return "proto" }
func (asIs) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (asIs) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

// Fields of a request that tests fill, by number: those of a DeltaDiscoveryRequest, unless
// they are said to be of a DiscoveryRequest.
const (
	deltaNode, deltaType, deltaSubscribe, deltaUnsubscribe    = 1, 2, 3, 4
	deltaVersions, deltaNonce, deltaError, deltaLocators      = 5, 6, 7, 8
	deltaDropLocators, unknownField                           = 9, 99
	sotwVersion, sotwNode, sotwNames, sotwType, sotwNonce     = 1, 2, 3, 4, 5
	sotwError, sotwLocators                                   = 6, 7
	entryKey, entryValue, locatorParameters, statusErrMessage = 1, 2, 2, 2
)

// field is one field of an encoded message.
func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// repeated is a beginning with a field behind it, again and again, up to a size.
func repeated(beginning []byte, size int, part []byte) []byte {
	return append(slices.Clip(beginning), bytes.Repeat(part, (size-len(beginning))/len(part))...)
}

// filled is a beginning with fields behind it, up to a size.
func filled(beginning []byte, size int, part func(i int) []byte) []byte {
	b := append(make([]byte, 0, size), beginning...)
	for i := 0; ; i++ {
		next := part(i)
		if len(b)+len(next) > size {
			return b
		}
		b = append(b, next...)
	}
}

// growth returns how many bytes are allocated while f runs.
func growth(f func()) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// live is what lives on the heap, in bytes.
func live() int64 {
	for range 3 { // what pools keep goes with the second collection
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peak returns the most that collections find alive while f runs, in bytes. They run each
// time the heap grows by a twentieth.
func peak(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	var most atomic.Int64
	var done atomic.Bool
	var watch func() // runs with each collection
	watch = func() {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		most.Store(max(most.Load(), int64(sample[0].Value.Uint64())))
		if !done.Load() {
			runtime.AddCleanup(new([64]byte), func(watch func()) { watch() }, watch)
		}
	}
	watch()
	f()
	done.Store(true)
	return most.Load()
}

// sendRequest sends one encoded request on a stream of its own, and returns what that ends
// with: if the request is served, nothing.
func sendRequest(t *testing.T, cc *grpc.ClientConn, v xdstest.Variant, request []byte) error {
	t.Helper()
	return sendTo(t, cc, v.Method(), request)
}

// sendTo is sendRequest for any method.
func sendTo(t *testing.T, cc *grpc.ClientConn, method string, request []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(asIs{}), grpc.MaxCallSendMsgSize(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	for {
		var b []byte
		if err := s.RecvMsg(&b); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// quietNode is a node with the default limits, whose origin has nothing.
func quietNode(t *testing.T, change ...func(*config.Config)) (*config.Config, *grpc.ClientConn) {
	t.Helper()
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	cfg.Downstream.XDSV2 = true
	for _, c := range change {
		c(cfg)
	}
	n := start(t, cfg)
	cc, err := grpc.NewClient(n.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	warm, err := proto.Marshal(xdstest.Node("warm", "test-cluster"))
	if err != nil {
		t.Fatal(err)
	}
	_ = sendRequest(t, cc, xdstest.Variant{Delta: true}, field(deltaNode, warm))
	return cfg, cc
}

// constant is what a stream, a key and the buffers of both transports take, whatever the size
// of a request is, with some room.
const constant = 2 << 20

// TestMemoryOfARequest: whatever a client puts into the largest request, the node allocates
// at most four times its size for it, from reading to refusing it. With the default limits.
func TestMemoryOfARequest(t *testing.T) {
	if detector {
		t.Skip("the race detector multiplies what is measured here")
	}
	cfg, cc := quietNode(t)
	node, err := proto.Marshal(xdstest.Node("client", "test-cluster"))
	if err != nil {
		t.Fatal(err)
	}
	// Parts of a megabyte, so that the request is made quickly.
	again := func(part []byte) func(int) []byte {
		return func(int) []byte { return repeated(nil, 1<<20-1, part) }
	}
	empty := func(number protowire.Number) func(int) []byte { return again(field(number, nil)) }
	huge := func(number protowire.Number) func(int) []byte {
		return func(i int) []byte {
			if i == 0 {
				return field(number, bytes.Repeat([]byte("x"), int(cfg.Limits.MaxRequestSize)-4<<10))
			}
			return field(unknownField, make([]byte, 8<<10)) // does not fit
		}
	}
	parameters := func(number protowire.Number) func(int) []byte {
		return again(field(number, bytes.Repeat(field(locatorParameters, nil), 1000)))
	}
	type fill struct {
		part func(int) []byte
		code codes.Code
	}
	distinct := func(number protowire.Number) func(int) []byte {
		return func(i int) []byte { return field(number, fmt.Appendf(nil, "%x", i)) }
	}
	delta := map[string]fill{
		"subscribe":           {empty(deltaSubscribe), codes.ResourceExhausted},
		"subscribe, distinct": {distinct(deltaSubscribe), codes.ResourceExhausted},
		"unsubscribe":         {empty(deltaUnsubscribe), codes.ResourceExhausted},
		"versions":            {empty(deltaVersions), codes.ResourceExhausted},
		"locators":            {empty(deltaLocators), codes.ResourceExhausted},
		"dropped locators":    {empty(deltaDropLocators), codes.ResourceExhausted},
		"locator parameters":  {parameters(deltaLocators), codes.ResourceExhausted},
		"type URL":            {huge(deltaType), codes.InvalidArgument},
		"one name":            {huge(deltaSubscribe), codes.ResourceExhausted},
		"one dropped name":    {huge(deltaUnsubscribe), codes.ResourceExhausted},
		"nonce":               {huge(deltaNonce), codes.OK},
		"error details":       {empty(deltaError), codes.ResourceExhausted},
		"unknown":             {empty(unknownField), codes.ResourceExhausted},
		"versions, long": {func(i int) []byte {
			return field(deltaVersions, append(field(entryKey, fmt.Appendf(nil, "%0220d", i)), field(entryValue, []byte("1"))...))
		}, codes.OK},
	}
	sotw := map[string]fill{
		"names":              {empty(sotwNames), codes.ResourceExhausted},
		"locators":           {empty(sotwLocators), codes.ResourceExhausted},
		"locator parameters": {parameters(sotwLocators), codes.ResourceExhausted},
		"type URL":           {huge(sotwType), codes.InvalidArgument},
		"version":            {huge(sotwVersion), codes.OK},
		"nonce":              {huge(sotwNonce), codes.OK},
		"error message": {func(i int) []byte {
			if i > 0 {
				return make([]byte, 1<<30)
			}
			return field(sotwError, field(statusErrMessage, bytes.Repeat([]byte("x"), int(cfg.Limits.MaxRequestSize)-4<<10)))
		}, codes.OK},
	}
	tried := func(name string, v xdstest.Variant, beginning []byte, f fill) {
		t.Run(name, func(t *testing.T) {
			request := filled(beginning, int(cfg.Limits.MaxRequestSize), f.part)
			var err error
			got := growth(func() { err = sendRequest(t, cc, v, request) })
			t.Logf("a request of %d bytes takes %.2f times as many", len(request), float64(got)/float64(len(request)))
			if got > 4*len(request)+constant {
				t.Errorf("a request of %d bytes takes %d, expected at most four times as many", len(request), got)
			}
			if status.Code(err) != f.code {
				t.Errorf("the stream ended %v, expected %v", err, f.code)
			}
		})
	}
	for name, f := range delta {
		tried("delta, "+name, xdstest.Variant{Delta: true}, append(field(deltaNode, node), field(deltaType, []byte(resource.EndpointURL))...), f)
	}
	for name, f := range sotw {
		tried("sotw, "+name, xdstest.Variant{}, append(field(sotwNode, node), field(sotwType, []byte(resource.EndpointURL))...), f)
		tried("v2, "+name, xdstest.Variant{V2: true}, append(field(sotwNode, node), field(sotwType, []byte(resource.EndpointV2URL))...), f)
	}
}

// reconnects is the first request of a delta client that comes back with as many names as it
// may have, of which it says what it holds.
func reconnects(t *testing.T, names, nameSize, versionSize int) []byte {
	t.Helper()
	node, err := proto.Marshal(xdstest.Node("client", "test-cluster"))
	if err != nil {
		t.Fatal(err)
	}
	b := append(field(deltaNode, node), field(deltaType, []byte(resource.EndpointURL))...)
	nameOf := func(i int) []byte { return fmt.Appendf(nil, "%0*x", nameSize, i) }
	for i := range names {
		b = append(b, field(deltaSubscribe, nameOf(i))...)
	}
	version := bytes.Repeat([]byte("v"), versionSize)
	for i := range names {
		b = append(b, field(deltaVersions, append(field(entryKey, nameOf(i)), field(entryValue, version)...))...)
	}
	return b
}

// TestLargestReconnect: limits.max_request_size is by default what a delta client needs that
// comes back with limits.max_names_per_stream names, and hardly more (B40). While it is served, and
// afterwards, the request takes at most four times its size, with the state of a
// subscription that nobody else has.
func TestLargestReconnect(t *testing.T) {
	if detector {
		t.Skip("the race detector multiplies what is measured here")
	}
	cfg, cc := quietNode(t)
	request := reconnects(t, cfg.Limits.MaxNamesPerStream, 64, 64)
	most := int(cfg.Limits.MaxRequestSize) - int(cfg.Limits.MaxNodeSize) // which the Node may need
	if n := len(request); n > most || n < most*9/10 {
		t.Errorf("the request has %d bytes, expected a little less than %d", n, most)
	}
	before := live()
	s, err := cc.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, xdstest.Variant{Delta: true}.Method(), grpc.ForceCodec(asIs{}), grpc.MaxCallSendMsgSize(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	atMost := peak(func() {
		if err := s.SendMsg(request); err != nil {
			t.Fatal(err)
		}
		var b []byte
		if err := s.RecvMsg(&b); err != nil { // the origin has none of them
			t.Fatalf("the stream ended %v", err)
		}
	})
	for what, got := range map[string]int64{"live at most": atMost - before, "stay alive": live() - before} {
		t.Logf("of a request of %d bytes %.2f times as many %s", len(request), float64(got)/float64(len(request)), what)
		if got > 4*int64(len(request))+constant {
			t.Errorf("of a request of %d bytes %d %s, expected at most four times as many", len(request), got, what)
		}
	}
	runtime.KeepAlive(request)
}

// TestMemoryOfTheUnauthorized: of a client that is not authorized the node reads only the
// first 64 KiB, however long its first request is, on every service that has a Node.
func TestMemoryOfTheUnauthorized(t *testing.T) {
	if detector {
		t.Skip("the race detector multiplies what is measured here")
	}
	cfg, cc := quietNode(t, func(c *config.Config) {
		c.Authorization.Rules = []authorize.Rule{{Name: "prod", Match: `listener == "default" && node.cluster == "prod"`}}
	})
	for _, v := range []xdstest.Variant{{}, {Delta: true}, {V2: true}} {
		number := resource.NodeNumber(v.Delta)
		for name, test := range map[string]struct {
			cluster string
			before  int // bytes in front of the Node
			code    codes.Code
			says    string
		}{
			"denied":         {"dev", 0, codes.PermissionDenied, "prod"},
			"node too late":  {"prod", fanout.FirstBytes, codes.InvalidArgument, "does not begin with the node (expected within the first 65536 bytes)"},
			"no node at all": {"", 1 << 30, codes.InvalidArgument, "does not begin with the node (expected within the first 65536 bytes)"},
		} {
			t.Run(fmt.Sprint(v, " ", name), func(t *testing.T) {
				node, err := proto.Marshal(xdstest.Node("client", test.cluster))
				if err != nil {
					t.Fatal(err)
				}
				var b []byte
				if test.before == 0 {
					b = field(number, node)
				}
				request := repeated(b, int(cfg.Limits.MaxRequestSize), field(unknownField, make([]byte, 64<<10)))
				if test.before > 0 && test.before < len(request) {
					request = append(request[:len(request)-(64<<10+6)], field(number, node)...)
				}
				got := growth(func() { err = sendRequest(t, cc, v, request) })
				t.Logf("%d bytes were taken of %d", got, len(request))
				if got > 4*fanout.FirstBytes+constant {
					t.Errorf("%d bytes were taken, expected about %d", got, fanout.FirstBytes)
				}
				if status.Code(err) != test.code || !strings.Contains(err.Error(), test.says) {
					t.Errorf("the stream ended %v, expected %v about %q", err, test.code, test.says)
				}
			})
		}
		node, err := proto.Marshal(xdstest.Node("client", "prod"))
		if err != nil {
			t.Fatal(err)
		}
		request := repeated(field(number, node), 1<<20, field(unknownField, make([]byte, 10_000)))
		switch {
		case v.Delta:
			request = append(request, field(deltaType, []byte(resource.ClusterURL))...)
		case !v.V2:
			request = append(request, field(sotwType, []byte(resource.ClusterURL))...)
		default:
			request = append(request, field(sotwType, []byte(resource.ClusterV2URL))...)
		}
		if err := sendRequest(t, cc, v, request); err != nil {
			t.Errorf("%v: who is authorized was refused: %v", v, err)
		}
	}
}
