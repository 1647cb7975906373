package fanout

import (
	"strconv"

	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/resource"
)

// frame is a response to be sent: a body that many clients share, and the few bytes of this client
// alone. Protobuf fields may be in any order, so the two are concatenated and never merged.
type frame struct {
	body, tail []byte
	compressed bool                // both are the parts of a gzip member
	buf        [maxDigits + 4]byte // of tail
}

// maxDigits is the maximum length of a nonce, in bytes.
const maxDigits = 20

func newFrame(body []byte, nonce uint64) *frame {
	f := &frame{body: body}
	var digits [maxDigits]byte
	f.tail = resource.AppendNonce(f.buf[:0], strconv.AppendUint(digits[:0], nonce, 10))
	return f
}

func (f *frame) size() int { return len(f.body) + len(f.tail) + frameHeader }

// codec passes frames through without a copy, and leaves all other messages (health, reflection) to
// the proto codec. Requests are read without it; see request.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	// SliceBuffer's reference counts do nothing: the GC frees the body.
	return mem.BufferSlice{mem.SliceBuffer(f.body), mem.SliceBuffer(f.tail)}, nil
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
