package fanout

import (
	"encoding/binary"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"xdsrelay/relay/resource"
)

// FirstBytes is how much of a stream's first request is read before its client is authorized, in
// bytes. These bytes must include the beginning of the Node and all fields of it that the authorize
// rules read.
const FirstBytes = 64 << 10

// fewBytes is the largest first request that is decoded before its client is authorized, in bytes.
// The decoded form may take a hundred times as much, which is less than four times FirstBytes.
const fewBytes = 2 << 10

// readPiece is how much is read from the transport at a time, in bytes: a frame. Small frames have
// an overhead of memory, which is freed with each piece.
const readPiece = 16 << 10

// messageReader is the part of grpc-go's transport streams that reads messages. RecvMsg would
// collect the whole message before the relay could check its beginning, and then copy it.
type messageReader interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// request is a received request of any service. It is decoded later, so that the decoded form does
// not live while the handler waits for the next request, and so that the handler can reject
// undecodable requests with its own message.
type request struct {
	whole  mem.Buffer // the whole request; nil until all of it has arrived
	parts  *parts     // the received bytes, if the request is not in a single frame
	header [5]byte    // the last four bytes are the size of the request
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

// requestSizes returns the sizes of buffers for requests: one that fits an ACK, and all powers of
// two from 4 KiB to 1 MiB. gRPC's own pool has none between 32 KiB and 1 MiB, so each reconnecting
// client that names a thousand resources would take the latter.
func requestSizes() []int {
	sizes := []int{256}
	for size := 4 << 10; size <= maxPooled; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

// begin waits for the next request and reads its header. It rejects requests of more than most
// bytes without reading their content.
func (r *request) begin(from messageReader, most int) error {
	if err := from.ReadMessageHeader(r.header[:]); err != nil {
		return received(err)
	}
	if flag := r.header[0]; flag != 0 {
		// No encoding exists that could have compressed it; see refuseEncoded.
		return status.Errorf(codes.Internal, "a request begins with the flag %d, expected 0: send requests uncompressed", flag)
	}
	if size := r.size(); size > most {
		return status.Errorf(codes.ResourceExhausted, "the request is larger than max: it has %d bytes, and the limit is %d (listen.max_receive_size)", size, most)
	}
	return nil
}

// size returns the size that the header announces, in bytes.
func (r *request) size() int { return int(binary.BigEndian.Uint32(r.header[1:])) }

// awaited describes the request that a stream waits for.
type awaited struct {
	tier  *peering         // the other node; nil for a client
	first bool             // whether it is the stream's first request
	node  protowire.Number // the field that holds the Node
	by    *peer.Peer
}

// receive waits for the next request of a stream and reads all of it. It reads all of a client's
// first request only if the beginning shows that the client is authorized. over reports whether the
// stream has ended; err is the error that it ended with.
func (s *Server) receive(c *caller, in *request, a awaited) (over bool, err error) {
	if err := in.begin(c.status, s.mostReceived(a.tier)); err != nil {
		return true, s.ended(c, err)
	}
	if a.first && a.tier == nil && in.size() > fewBytes {
		if err := in.readTo(c.status, FirstBytes); err != nil {
			in.free()
			return true, s.ended(c, err)
		}
		if err := s.authorizeEarly(c, in, a.node, a.by); err != nil {
			in.free()
			return true, s.refused(c, err)
		}
	}
	if err := in.readTo(c.status, in.size()); err != nil {
		in.free()
		return true, s.ended(c, err)
	}
	return false, nil
}

// readTo reads until n bytes of the request have arrived, or the whole request.
func (r *request) readTo(from messageReader, n int) error {
	n = min(n, r.size())
	for r.whole == nil && (r.have() < n || r.size() == 0) {
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
		return r.size()
	case r.parts != nil:
		return r.parts.have
	}
	return 0
}

// add takes ownership of the received bytes.
func (r *request) add(got mem.BufferSlice) {
	if r.parts == nil && got.Len() == r.size() && len(got) <= 1 {
		r.whole = mem.SliceBuffer(nil)
		if len(got) == 1 {
			r.whole = got[0]
		}
		return
	}
	if r.parts == nil {
		r.parts = &parts{total: r.size()}
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
	if p.buffer == nil && (p.total <= FirstBytes || p.have >= p.total/2) {
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
	piece := requestPool.Get(min(max(p.have, FirstBytes), maxPooled))
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

// beginning returns the received bytes of the request, at most [FirstBytes].
func (r *request) beginning() []byte {
	b := r.bytes()
	switch p := r.parts; {
	case p == nil:
	case p.buffer != nil:
		b = (*p.buffer)[:p.have]
	case len(p.pieces) > 0:
		b = (*p.pieces[0])[:min(p.have, len(*p.pieces[0]))]
	}
	return b[:min(len(b), FirstBytes)]
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

// decode decodes the request as one of a variant. The result is valid until free.
func (r *request) decode(delta bool, to *resource.Request) (err error) {
	if delta {
		err = resource.DecodeDeltaRequest(r.bytes(), to)
	} else {
		err = resource.DecodeSotWRequest(r.bytes(), to)
	}
	if err != nil {
		return malformed(err)
	}
	return nil
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
