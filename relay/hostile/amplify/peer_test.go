package amplify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// The methods by which nodes ask each other: paths with a query, like that of a URL. Both have
// the same handler, and neither has a descriptor.
const (
	askMethod  = "/xdsrelay.peer.v1.Peer/Ask"
	beatMethod = "/xdsrelay.peer.v1.Peer/Heartbeats"
)

// otherNode is the name of the member of the tier that the test is.
const otherNode = "other"

// keysOf returns a function that returns another key each time, which a member of the tier
// owns.
func keysOf(t *testing.T, name string) func() string {
	t.Helper()
	view := shard.NewView([]shard.Member{{Name: "node"}, {Name: otherNode}})
	i := 0
	return func() string {
		for {
			i++
			key := fmt.Sprint("key-", i)
			if owner, ok := view.Owner(key); ok && owner.Name == name {
				return key
			}
		}
	}
}

// described makes descriptors of fields that messages between nodes have and the protocol
// lacks.
func described(t *testing.T, fields []resource.PeerField) (all []path) {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: new("Peer")}
	for _, f := range fields {
		kind := descriptorpb.FieldDescriptorProto_TYPE_UINT64
		if f.Text {
			kind = descriptorpb.FieldDescriptorProto_TYPE_STRING
		}
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: new(f.Name), Number: new(int32(f.Number)), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	d, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("peer.proto"), Syntax: new("proto3"), MessageType: []*descriptorpb.DescriptorProto{m},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return fieldsOf(d.Messages().Get(0))
}

// peerRows are the rows of what a node of a tier is sent by another one: calls of its port
// for nodes, and responses of the node that owns a key.
func peerRows(t *testing.T, n *node, owner *controlPlane, all bool) (rows []row) {
	t.Helper()
	on := port{
		surface: "port for nodes", cc: dial(t, n.Peer),
		header: metadata.Pairs(resource.PeerKeyHeader, fleetKey, resource.PeerNodeHeader, otherNode),
		extra: map[protoreflect.FullName][]path{
			(&discoveryv3.DeltaDiscoveryRequest{}).ProtoReflect().Descriptor().FullName(): described(t, resource.PeerRequestFields()),
		},
	}
	rows = append(on.rows(t, peerMethods(t, n), all), on.questionRows(t, n, all)...)
	rows = append(rows, on.heldRows(t, owner, all)...)

	cc, keys := dial(t, n.XDS), keysOf(t, otherNode)
	from := &upstream{c: owner, surface: "other node", extra: described(t, resource.PeerResponseFields()), nonce: 1_000_000_000}
	// A node leaves an owner alone for long whose responses it cannot read: each row is
	// about another key.
	from.visit = func(t *testing.T) (end func()) {
		t.Helper()
		from.now = nil
		key := keys()
		ctx, cancel := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() { _ = subscribe(ctx, cc, key) }) // until its stream ends
		return func() {
			cancel()
			client.Wait()
		}
	}
	return append(rows, from.rows(xdstest.Delta.Method(), (&discoveryv3.DeltaDiscoveryResponse{}).ProtoReflect().Descriptor(), all, func(nonce string) proto.Message {
		return &discoveryv3.DeltaDiscoveryResponse{TypeUrl: content.ClusterURL, SystemVersionInfo: nonce, Nonce: nonce}
	})...)
}

// peerMethods are all that the port for nodes serves, with their input. One without a
// descriptor fails the test, but for [askMethod].
func peerMethods(t *testing.T, n *node) map[string]protoreflect.MessageDescriptor {
	t.Helper()
	all := make(map[string]protoreflect.MessageDescriptor)
	for _, path := range n.PeerMethods {
		switch path {
		case askMethod:
			continue // see questionRows
		case beatMethod:
			all[path] = (&durationpb.Duration{}).ProtoReflect().Descriptor()
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			t.Errorf("the port for nodes serves %s, of which no message is known: %v", path, err)
			continue
		}
		all[path] = d.(protoreflect.MethodDescriptor).Input()
	}
	if len(all) == 0 {
		t.Error("the node does not name the methods of its port for nodes")
	}
	return all
}

// questionRows are the rows of [askMethod]: of each parameter of each question that the node
// answers, as it registers them, and of one that it does not know.
func (on port) questionRows(t *testing.T, n *node, all bool) (rows []row) {
	t.Helper()
	if len(n.PeerQuestions) == 0 {
		t.Fatal("the node does not name the questions that it answers")
	}
	asked := maps.Clone(n.PeerQuestions)
	asked[unknown] = nil
	for path, params := range sorted(asked) {
		for _, param := range append(slices.Clone(params), unknown) {
			for _, fill := range queries(param, params, all) {
				rows = append(rows, row{surface: on.surface, message: "Ask: " + path, field: param, pattern: fill.name, send: func(t *testing.T, size int) int {
					t.Helper()
					b := question(path + "?" + fill.fill(size))
					_ = on.call(t, askMethod, b) // which may be refused
					return len(b)
				}})
			}
		}
	}
	return rows
}

func question(path string) []byte { return encode(wrapperspb.String(path)) }
