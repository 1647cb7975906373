package grpcgo

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/fanout/transport"
	"xdsrelay/relay/resource"
)

// arrive returns a request that has arrived in pieces.
func arrive(pieces mem.BufferSlice) *request {
	r := &request{size: pieces.Len()}
	r.add(pieces)
	return r
}

// A request may arrive in pieces.
func TestRequestInPieces(t *testing.T) {
	whole := []byte("a request")
	in := arrive(mem.BufferSlice{mem.SliceBuffer(slices.Clone(whole[:1])), mem.SliceBuffer(slices.Clone(whole[1:]))})
	if !bytes.Equal(in.bytes(), whole) || !bytes.Equal(in.beginning(), whole) {
		t.Fatalf("a request in pieces became %q", in.bytes())
	}
	in.free()
}

// A request takes as much memory as it has bytes, and not that of the largest: when thousands of
// clients reconnect at once, each has a request with the list of what it holds.
func TestCostOfARequestsBuffer(t *testing.T) {
	for _, size := range []int{100, 3_000, 30_000, 40_000, 100_000, 600_000, 5_000_000} {
		data := mem.BufferSlice{mem.SliceBuffer(make([]byte, size/2)), mem.SliceBuffer(make([]byte, size-size/2))}
		r := arrive(data)
		if len(r.bytes()) != size {
			t.Fatalf("a request of %d bytes: %d are there", size, len(r.bytes()))
		}
		if got, most := cap(r.bytes()), max(4<<10, 2*size); got > most {
			t.Errorf("a request of %d bytes takes %d, at most %d are meant", size, got, most)
		}
		r.free()
	}
}

// The codec passes the body itself and the client's own bytes to the transport.
func TestCodecCopiesNothing(t *testing.T) {
	m := &transport.Message{Body: []byte("shared")}
	m.Tail = append(m.Room(), "own"...)
	got, err := newCodec().Marshal(m)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d buffers, %v", len(got), err)
	}
	for i, want := range [][]byte{m.Body, m.Tail} {
		if b := got[i].ReadOnlyData(); unsafe.SliceData(b) != unsafe.SliceData(want) || len(b) != len(want) {
			t.Errorf("buffer %d is a copy", i)
		}
	}
	// All else is an ordinary message.
	other := &discoveryv3.DiscoveryRequest{TypeUrl: "x"}
	bufs, err := newCodec().Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	back := &discoveryv3.DiscoveryRequest{}
	if err := newCodec().Unmarshal(bufs, back); err != nil || !proto.Equal(other, back) {
		t.Fatalf("a message became %v, %v", back, err)
	}
	if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("\xff")}, back); err == nil {
		t.Fatal("garbage is a message")
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = newCodec().Marshal(m) }); n > 1 {
		t.Errorf("%v objects are allocated for a message, expected one", n)
	}
}

// TestNestingOfOtherServices: what is nested deeper than a Node may be is not decoded for the other
// services of the port either. Each level takes some of the stack.
func TestNestingOfOtherServices(t *testing.T) {
	for levels, want := range map[int]string{resource.MaxNesting/2 - 1: "", resource.MaxNesting: "recursion"} {
		deep := structpb.NewNullValue()
		for range levels {
			deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep}})
		}
		encoded, err := newCodec().Marshal(deep)
		if err != nil {
			t.Fatal(err)
		}
		if err := newCodec().Unmarshal(encoded, &structpb.Value{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d lists in one another: %v", levels, err)
		}
	}
}
