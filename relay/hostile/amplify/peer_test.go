package amplify

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard"
)

// askMethod is that by which nodes ask one another: a path with a query, like that of a
// URL. There is no descriptor of it.
const askMethod = "/xdsrelay.peer.v1.Peer/Ask"

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
	rows = append(on.rows(t, peerMethods(t, n), all), on.questionRows(t, all)...)
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
		if path == askMethod {
			continue // see questionRows
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

// questionRows are the rows of [askMethod]: of each question that the node answers, as it
// says itself, and of one that it does not know.
func (on port) questionRows(t *testing.T, all bool) (rows []row) {
	t.Helper()
	err := on.call(t, askMethod, question(unknown))
	_, list, is := strings.Cut(fmt.Sprint(err), "it knows ")
	names := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`).FindAllString(list, -1)
	if !is || len(names) == 0 {
		t.Fatalf("the node does not say which questions it answers: %v", err)
	}
	paths := []string{unknown}
	for _, quoted := range names {
		name, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, name)
	}
	for _, path := range paths {
		for _, fill := range queries(all) {
			rows = append(rows, row{surface: on.surface, message: "Ask: " + path, field: "query", pattern: fill.name, send: func(t *testing.T, size int) int {
				t.Helper()
				b := question(path + "?" + fill.fill(size))
				_ = on.call(t, askMethod, b) // which may be refused
				return len(b)
			}})
		}
	}
	return rows
}

func question(path string) []byte { return encode(wrapperspb.String(path)) }

// query is a way to fill the query of a URL with about so many bytes.
type query struct {
	name string
	fill func(size int) string
}

// queries are those that are tried. Where all is not asked for, a text is filled with the
// first of [texts] alone.
func queries(all bool) []query {
	q := []query{
		{"one huge text", func(size int) string { return "key=" + strings.Repeat("x", size) }},
		{"many entries", func(size int) string { return strings.Repeat("key&", size/4) }},
		{"escapes", func(size int) string { return "key=" + strings.Repeat("%41", size/3) }},
		{"a huge text in each parameter", func(size int) string {
			value := "=" + strings.Repeat("x", size/len(parameters())) + "&"
			return strings.Join(parameters(), value) + value
		}},
	}
	for i, text := range texts {
		if i == 0 || all {
			q = append(q, query{fmt.Sprintf("%q repeated", text), func(size int) string { return "key=" + strings.Repeat(text, size/len(text)) }})
		}
	}
	return q
}
