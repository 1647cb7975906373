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

// request is a request on its way in, of any service, as the transport hands it over.
// It is read later, so that what was read does not live while the handler waits for the
// next, and that the handler refuses in its own words what cannot be.
type request struct{ data mem.Buffer }

// read reads the request as one of a variant. The result is good until the request
// is freed.
func (r *request) read(delta bool, to *resource.Request) (err error) {
	if delta {
		err = resource.DecodeDeltaRequest(r.data.ReadOnlyData(), to)
	} else {
		err = resource.DecodeSotWRequest(r.data.ReadOnlyData(), to)
	}
	if err != nil {
		return malformed(err)
	}
	return nil
}

func (r *request) size() int { return r.data.Len() }

// free gives the bytes back.
func (r *request) free() {
	r.data.Free()
	r.data = nil
}

// codec passes frames and requests through without a copy, and leaves everything
// else (health, reflection) to the proto codec.
type codec struct {
	encoding.CodecV2
	requests mem.BufferPool // where requests are kept until they are read
}

func newCodec() codec {
	return codec{encoding.GetCodecV2(proto.Name), mem.NewTieredBufferPool(requestSizes()...)}
}

// requestSizes are the sizes of buffers for requests: an ACK's, and all powers of two
// up to 1 MiB. gRPC's own pool has none between 32 KiB and 1 MiB, so that each client
// that comes back and says which thousand resources it holds would take the latter.
func requestSizes() []int {
	sizes := []int{256}
	for size := 4 << 10; size <= 1<<20; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	// SliceBuffer's reference counts do nothing: the body is left to the GC.
	return mem.BufferSlice{mem.SliceBuffer(f.body), mem.SliceBuffer(f.tail)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	r.data = data.MaterializeToBuffer(c.requests)
	return nil
}
