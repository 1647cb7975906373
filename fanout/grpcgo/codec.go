package grpcgo

import (
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout/transport"
	"xdsrelay/relay/resource"
)

// codec passes messages of calls through without a copy, and leaves all other messages (health, reflection) to
// the proto codec. Requests are read without it; see request.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*transport.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	b := &buffers{parts: [2]mem.SliceBuffer{m.Body, m.Tail}}
	b.all = [2]mem.Buffer{&b.parts[0], &b.parts[1]}
	return b.all[:], nil
}

// buffers are those of one message, in one piece of memory instead of three. The reference counts of
// SliceBuffer do nothing: the GC frees the body.
type buffers struct {
	parts [2]mem.SliceBuffer
	all   [2]mem.Buffer
}

// Unmarshal decodes requests of the other services. It does not decode what is nested deeper than
// resource.MaxNesting: a request of thousands of levels would take megabytes of stack.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return readable.Unmarshal(b.ReadOnlyData(), m)
}

// readable decodes the requests of the other services.
var readable = proto.UnmarshalOptions{RecursionLimit: resource.MaxNesting}
