package fanout

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

func encodeNode(t rapid.TB, n *corev3.Node) []byte {
	t.Helper()
	b, err := proto.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestIdentity: the fields that identify a client are kept, the others are not.
func TestIdentity(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"zone": "z"})
	if err != nil {
		t.Fatal(err)
	}
	kept := &corev3.Node{
		Id: "id", Cluster: "cluster", Metadata: metadata, Locality: &corev3.Locality{Region: "r"},
		UserAgentName: "envoy", UserAgentVersionType: &corev3.Node_UserAgentVersion{UserAgentVersion: "1.30"}, ClientFeatures: []string{"a", "b"},
	}
	all := proto.CloneOf(kept)
	all.Extensions = []*corev3.Extension{{Name: strings.Repeat("x", 100)}}
	i := identityOf(protowire.AppendVarint(append(encodeNode(t, all), 0x98, 0x06), 1)) // and an unknown field
	got := &corev3.Node{}
	if err := proto.Unmarshal([]byte(i.node), got); err != nil || !proto.Equal(got, kept) || i.id != "id" || i.cluster != "cluster" {
		t.Fatalf("kept %v, %q of %q, error %v", got, i.id, i.cluster, err)
	}

	all.Metadata.Fields["large"] = structpb.NewStringValue(strings.Repeat("x", maxNode))
	kept.Metadata = nil
	got.Reset()
	if err := proto.Unmarshal([]byte(identityOf(encodeNode(t, all)).node), got); err != nil || !proto.Equal(got, kept) {
		t.Fatalf("of a large one %v is kept, error %v", got, err)
	}
	kept.UserAgentName = strings.Repeat("x", maxNode)
	got.Reset()
	if err := proto.Unmarshal([]byte(identityOf(encodeNode(t, kept)).node), got); err != nil || !proto.Equal(got, &corev3.Node{Id: "id", Cluster: "cluster"}) {
		t.Fatalf("of one that is large without metadata %v is kept, error %v", got, err)
	}
	if i := identityOf(nil); i.node+i.id+i.cluster != "" {
		t.Fatalf("nobody is %+v", i)
	}
}

// TestIdentityReads: id and cluster are as protobuf decodes them, however the fields are encoded.
func TestIdentityReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var raw []byte
		for range rapid.IntRange(0, 6).Draw(t, "fields") {
			raw = append(raw, encodeNode(t, &corev3.Node{
				Id:      rapid.SampledFrom([]string{"", "a", strings.Repeat("b", 200)}).Draw(t, "id"),
				Cluster: rapid.SampledFrom([]string{"", "c"}).Draw(t, "cluster"), UserAgentName: "u",
			})...)
		}
		want := &corev3.Node{}
		if err := proto.Unmarshal(raw, want); err != nil {
			t.Fatal(err)
		}
		if i := identityOf(raw); i.id != want.GetId() || i.cluster != want.GetCluster() {
			t.Fatalf("%q of %q, expected %q of %q", i.id, i.cluster, want.GetId(), want.GetCluster())
		}
	})
}

// FuzzIdentity: malformed Nodes do no harm.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte{0x0a, 0x01, 'x', 0x12, 0xff})
	f.Add([]byte("\x150000")) // the number of the cluster with another wire type
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := &corev3.Node{}
		wellFormed := proto.Unmarshal(raw, n) == nil
		if i := identityOf(raw); wellFormed && (i.id != n.GetId() || i.cluster != n.GetCluster()) {
			t.Fatalf("%q of %q, expected %q of %q", i.id, i.cluster, n.GetId(), n.GetCluster())
		}
		if i := identityOf(raw); wellFormed && len(i.node) > max(maxNode, len(i.id)+len(i.cluster)+12) {
			t.Fatalf("%d bytes are kept", len(i.node))
		}
	})
}
