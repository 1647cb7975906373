package grpcgo

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/transport"
)

// readPiece is how much is read from the transport at a time, in bytes: a frame. Small frames have
// an overhead of memory, which is freed with each piece.
const readPiece = 16 << 10

// request is a request that is being read. Only its bytes are read here: so the handler can reject
// undecodable requests with its own message, and the decoded form does not live while the next
// request is awaited.
type request struct {
	whole mem.Buffer // the whole request; nil until all of it has arrived
	parts *parts     // the received bytes, if the request is not in a single frame
	size  int        // in bytes, as the header says
}

// parts are the received bytes of a request. The memory in use follows these bytes, not the size
// that the header announces: there are pieces until half of the request has arrived, and then one
// buffer for the whole request.
type parts struct {
	total, have int
	pieces      []*[]byte // from requestPool, in order, until there is the buffer
	buffer      *[]byte   // for the whole request; nil while there are pieces
}

// requestPool has buffers for requests.
var requestPool = mem.NewTieredBufferPool(requestSizes()...)

// maxPooled is the largest buffer of requestPool, in bytes.
const maxPooled = 1 << 20

// requestSizes returns the sizes of buffers for requests: one that fits an ACK, and from 4 KiB to 1 MiB
// all powers of two and what is halfway between them. gRPC's own pool has none between 32 KiB and
// 1 MiB, so each reconnecting client that names a thousand resources would take the latter.
func requestSizes() []int {
	sizes := []int{256}
	for size := 4 << 10; size < maxPooled; size *= 2 {
		sizes = append(sizes, size, size+size/2)
	}
	return append(sizes, maxPooled)
}

// begin waits for the next request and reads its header, for which there is room in header. It
// rejects requests of more than most bytes without reading their content.
func (r *request) begin(from messageReader, header []byte, most int) error {
	if err := from.ReadMessageHeader(header); err != nil {
		return received(err)
	}
	if flag := header[0]; flag != 0 {
		// No encoding exists that could have compressed it; see refuseEncoded.
		return status.Errorf(codes.Internal, "a request begins with the flag %d, expected 0: send requests uncompressed", flag)
	}
	if r.size = int(binary.BigEndian.Uint32(header[1:])); r.size > most {
		return status.Errorf(codes.ResourceExhausted, "the request is larger than max: it has %d bytes, and the limit is %d (limits.max_request_size)", r.size, most)
	}
	return nil
}

// readTo reads until n bytes of the request have arrived, or the whole request.
func (r *request) readTo(from messageReader, n int) error {
	n = min(n, r.size)
	for r.whole == nil && (r.have() < n || r.size == 0) {
		got, err := from.Read(min(n-r.have(), readPiece))
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return received(err)
		}
		r.add(got)
	}
	return nil
}

// have returns how much has arrived, in bytes.
func (r *request) have() int {
	switch {
	case r.whole != nil:
		return r.size
	case r.parts != nil:
		return r.parts.have
	}
	return 0
}

// add takes ownership of the received bytes.
func (r *request) add(got mem.BufferSlice) {
	if r.parts == nil && got.Len() == r.size && len(got) <= 1 {
		r.whole = mem.SliceBuffer(nil)
		if len(got) == 1 {
			r.whole = got[0]
		}
		return
	}
	if r.parts == nil {
		r.parts = &parts{total: r.size}
	}
	for _, b := range got {
		r.parts.add(b.ReadOnlyData())
		b.Free()
	}
	if r.parts.have < r.parts.total {
		return
	}
	r.whole = r.parts.whole()
	r.parts = nil
}

func (p *parts) add(b []byte) {
	for len(b) > 0 {
		n := copy(p.room(), b)
		p.have += n
		b = b[n:]
	}
}

// room returns the memory for the next bytes.
func (p *parts) room() []byte {
	if p.buffer == nil && (p.total <= transport.FirstBytes || p.have >= p.total/2) {
		p.gather()
	}
	if p.buffer != nil {
		return (*p.buffer)[p.have:p.total]
	}
	at := p.have
	for _, piece := range p.pieces {
		if at < len(*piece) {
			return (*piece)[at:]
		}
		at -= len(*piece)
	}
	// Doubling the memory keeps the number of pieces small.
	piece := requestPool.Get(min(max(p.have, transport.FirstBytes), maxPooled))
	p.pieces = append(p.pieces, piece)
	return *piece
}

// gather allocates the buffer for the whole request.
func (p *parts) gather() {
	if p.total <= maxPooled {
		p.buffer = requestPool.Get(p.total)
	} else {
		b := make([]byte, p.total)
		p.buffer = &b
	}
	n := 0
	for _, piece := range p.pieces {
		n += copy((*p.buffer)[n:p.have], *piece)
		requestPool.Put(piece)
	}
	p.pieces = nil
}

// whole returns the request after all of it has arrived.
func (p *parts) whole() mem.Buffer {
	if p.total <= maxPooled {
		return mem.NewBuffer(p.buffer, requestPool)
	}
	return mem.SliceBuffer(*p.buffer)
}

// free releases the memory.
func (p *parts) free() {
	if p.buffer != nil && p.total <= maxPooled {
		requestPool.Put(p.buffer)
	}
	for _, piece := range p.pieces {
		requestPool.Put(piece)
	}
}

// beginning returns the received bytes of the request, at most [transport.FirstBytes].
func (r *request) beginning() []byte {
	b := r.bytes()
	switch p := r.parts; {
	case p == nil:
	case p.buffer != nil:
		b = (*p.buffer)[:p.have]
	case len(p.pieces) > 0:
		b = (*p.pieces[0])[:min(p.have, len(*p.pieces[0]))]
	}
	return b[:min(len(b), transport.FirstBytes)]
}

// bytes returns the whole request; nil until all of it has arrived. The bytes are valid until free.
func (r *request) bytes() []byte {
	if r.whole == nil {
		return nil
	}
	return r.whole.ReadOnlyData()
}

// free releases the memory.
func (r *request) free() {
	if r.whole != nil {
		r.whole.Free()
	}
	if r.parts != nil {
		r.parts.free()
	}
	*r = request{}
}

// received converts the error of a read to the error that RecvMsg would return.
func received(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.Internal, "the stream ended within a request")
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.FromContextError(err).Err()
}
