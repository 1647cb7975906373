package fanout

import (
	"strconv"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"xdsrelay/relay/resource"
)

// frame is a response on its way out: a body shared by many clients and the
// few bytes that are this client's own. Protobuf fields may come in any order,
// so the two are concatenated and never merged.
type frame struct {
	body, tail []byte
	compressed bool                // both are the parts of a gzip member
	buf        [maxDigits + 4]byte // of tail
}

// maxDigits is how long a nonce is, at most.
const maxDigits = 20

func newFrame(body []byte, nonce uint64) *frame {
	f := &frame{body: body}
	var digits [maxDigits]byte
	f.tail = resource.AppendNonce(f.buf[:0], strconv.AppendUint(digits[:0], nonce, 10))
	return f
}

func (f *frame) size() int { return len(f.body) + len(f.tail) + frameHeader }

// codec passes frames through without a copy, and leaves everything else (health,
// reflection) to the proto codec. Requests are read without it; see request.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	// SliceBuffer's reference counts do nothing: the body is left to the GC.
	return mem.BufferSlice{mem.SliceBuffer(f.body), mem.SliceBuffer(f.tail)}, nil
}
