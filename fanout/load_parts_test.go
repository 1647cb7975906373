package fanout

import (
	"bytes"
	"slices"
	"testing"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestMessagesIn: all messages that decoding would make are counted, as deep as it decodes, and no
// more than asked for.
func TestMessagesIn(t *testing.T) {
	of := (&lrsv3.LoadStatsRequest{}).ProtoReflect().Descriptor()
	report, err := proto.Marshal(&lrsv3.LoadStatsRequest{Node: xdstest.Node("n", "c"), ClusterStats: reporting(issued(1), issued(2)).GetClusterStats()})
	if err != nil {
		t.Fatal(err)
	}
	all := messagesIn(report, of, 1000)
	if all < 5 { // a Node, and two clusters with a locality each
		t.Errorf("%d messages in a report", all)
	}
	// A struct in the Node's metadata that contains itself, from the inside out.
	deep := []byte{}
	for range 1000 {
		for _, field := range []protowire.Number{5, 2, 1} { // value, map entry, field
			deep = slices.Concat(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), deep))
		}
	}
	deep = protowire.AppendBytes(protowire.AppendTag(nil, nodeMetadataField, protowire.BytesType), deep)
	deep = protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), deep)
	for _, c := range []struct {
		what       string
		raw        []byte
		most, want int
	}{
		{"nothing", nil, 10, 0},
		{"a report of which fewer are wanted", report, all - 2, all - 1},
		{"a report of which all are wanted", report, all, all},
		{"empty clusters", bytes.Repeat([]byte{0x12, 0}, 100), 1000, 100},
		{"too many of them", bytes.Repeat([]byte{0x12, 0}, 100), 50, 51},
		{"unknown fields", bytes.Repeat([]byte{0x7a, 0}, 100), 1000, 0},
		{"what is cut off", []byte{0x12, 0, 0x12}, 1000, 1},
		{"what lies deeper than can be decoded", deep, 100_000, resource.MaxNesting},
		{"too much in depth", deep, 50, 51},
	} {
		if got := messagesIn(c.raw, of, c.most); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
