package amplify

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// rawCodec sends and receives bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string                    { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }

func encode(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// dial connects to a port of a node.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cc.Close() })
	return cc
}

// port is one of a node that serves gRPC.
type port struct {
	surface string
	cc      *grpc.ClientConn
	header  metadata.MD                      // of each call
	strange bool                             // it refuses clients of strangerKey
	extra   map[protoreflect.FullName][]path // fields that messages have in addition to those of their descriptors
}

// call opens a stream, sends one message, and waits until the node has looked at it.
func (on port) call(t *testing.T, method string, message []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), on.header), xdstest.Patience)
	defer cancel()
	s, err := on.cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.WaitForReady(true),
		grpc.ForceCodec(rawCodec{}), grpc.MaxCallSendMsgSize(1<<30), grpc.MaxCallRecvMsgSize(1<<30))
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	if err := s.SendMsg(message); err == nil || errors.Is(err, io.EOF) {
		_ = s.CloseSend() // requests are looked at in turn, so that its end means that all were
	}
	for {
		var m []byte
		err := s.RecvMsg(&m)
		switch {
		case err == nil && (method == beatMethod || strings.HasSuffix(method, "/Watch")):
			return nil // which goes on after the end of the requests
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			t.Fatalf("%s: the node does not answer", method)
		default:
			return err
		}
	}
}

// methods are all that a port serves, as it says itself by reflection, with their input.
func methods(t *testing.T, cc *grpc.ClientConn) (all map[string]protoreflect.MessageDescriptor) {
	t.Helper()
	s, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{ListServices: "*"}}); err != nil {
		t.Fatal(err)
	}
	res, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.CloseSend()
	all = make(map[string]protoreflect.MessageDescriptor)
	for _, service := range res.GetListServicesResponse().GetService() {
		name := service.GetName()
		described := name
		if strings.Contains(name, ".v2.") { // of which the program has no descriptors
			described = likeV2(name[strings.LastIndex(name, ".")+1:])
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(described))
		if err != nil {
			t.Errorf("the node serves %s, of which no messages are known: %v", name, err)
			continue
		}
		of := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range of.Len() {
			all["/"+name+"/"+string(of.Get(i).Name())] = of.Get(i).Input()
		}
	}
	return all
}

// likeV2 is the service of version 3 that has a name, in whatever package.
func likeV2(name string) (found string) {
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if s := f.Services().Get(i); string(s.Name()) == name && strings.HasSuffix(string(f.Package()), ".v3") {
				found = string(s.FullName())
			}
		}
		return found == ""
	})
	return found
}

// method is one that has rows for all fields of its message.
type method struct {
	path string
	base func(key string) proto.Message // what a message has besides the field that is filled
}

// drivers say, for each message that a client can send, which of the methods that take it
// has rows for all its fields, and what such a message has to have to get anywhere. The
// other methods have rows for its outermost fields.
var drivers = map[protoreflect.FullName]method{
	"envoy.service.discovery.v3.DiscoveryRequest": {xdstest.SotW.Method(), func(key string) proto.Message {
		return &discoveryv3.DiscoveryRequest{Node: nodeOf(key), TypeUrl: content.EndpointURL}
	}},
	"envoy.service.discovery.v3.DeltaDiscoveryRequest": {xdstest.Delta.Method(), func(key string) proto.Message {
		return &discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.EndpointURL}
	}},
	"envoy.service.load_stats.v3.LoadStatsRequest": {lrsv3.LoadReportingService_StreamLoadStats_FullMethodName, func(key string) proto.Message {
		return &lrsv3.LoadStatsRequest{Node: nodeOf(key)}
	}},
	"envoy.service.status.v3.ClientStatusRequest":     {"/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus", nil},
	"google.protobuf.Duration":                        {beatMethod, func(string) proto.Message { return durationpb.New(time.Second) }},
	"grpc.health.v1.HealthCheckRequest":               {"/grpc.health.v1.Health/Check", nil},
	"grpc.health.v1.HealthListRequest":                {"/grpc.health.v1.Health/List", nil},
	"grpc.reflection.v1.ServerReflectionRequest":      {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nil},
	"grpc.reflection.v1alpha.ServerReflectionRequest": {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", nil},
}

func nodeOf(key string) *corev3.Node { return xdstest.Node("x", key) }

// unknown stands for all fields that a message does not have.
const unknown = "(unknown)"

// clientRows are the rows of the port for clients.
func clientRows(t *testing.T, n *node, all bool) (rows []row) {
	cc := dial(t, n.XDS)
	return port{surface: "client port", cc: cc, strange: true}.rows(t, methods(t, cc), all)
}

// rows are the rows of methods, with their input.
func (on port) rows(t *testing.T, served map[string]protoreflect.MessageDescriptor, all bool) (rows []row) {
	t.Helper()
	for _, path := range slices.Sorted(maps.Keys(served)) {
		input := served[path]
		d, ok := drivers[input.FullName()]
		if !ok {
			t.Errorf("%s takes %s, which no driver can send: add it to drivers", path, input.FullName())
			continue
		}
		canonical := d.path == path
		for _, p := range append(fieldsOf(input), on.extra[input.FullName()]...) {
			if !canonical && len(p) > 1 {
				continue
			}
			for i, fill := range patternsFor(p.leaf(), all) {
				if !canonical && (i > 0 || !all && path != "" && !sampled(path)) {
					continue
				}
				rows = append(rows, on.row(path, input, d, p.String(), fill.name, fleetKey, func(size int) []byte { return p.message(fill, size) }))
				if on.strange && d.base != nil && (canonical && (i == 0 || all)) {
					r := on.row(path, input, d, p.String(), fill.name, strangerKey, func(size int) []byte { return p.message(fill, size) })
					r.refused = true
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}

// sampled methods have rows in the ordinary run, too: one for each kind of service.
func sampled(path string) bool {
	return strings.Contains(path, "ClusterDiscoveryService") || !strings.Contains(path, "DiscoveryService/")
}

func (on port) row(path string, input protoreflect.MessageDescriptor, d method, field, fill, key string, message func(size int) []byte) row {
	return row{surface: on.surface, message: string(input.Name()) + " of " + service(path), field: field, pattern: fill, send: func(t *testing.T, size int) int {
		t.Helper()
		var b []byte
		if d.base != nil {
			b = encode(d.base(key))
		}
		b = append(b, message(size)...)
		if err := on.call(t, path, b); key == strangerKey && status.Code(err) == codes.OK {
			t.Errorf("%s: a stranger is served", path)
		}
		return len(b)
	}}
}

// service is the short name of a method's service.
func service(path string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if i := strings.LastIndex(name, "."); i >= 0 {
		prefix := name[:i]
		name = name[i+1:]
		if strings.Contains(prefix, "v2") {
			name += " (v2)"
		}
	}
	return name
}
