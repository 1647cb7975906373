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

// FirstBytes is how much of a stream's first request is read before its client is
// authorized, in bytes. The Node has to begin in them, and what the rules of authorize
// read of it has to be in them.
const FirstBytes = 64 << 10

// fewBytes is how long a first request may be that is decoded before its client is
// authorized: decoded, it may take a hundred times as much, which is less than four times
// FirstBytes.
const fewBytes = 2 << 10

// readPiece is how much is asked of the transport at a time, in bytes: a frame. What small
// frames take beyond their bytes is freed with each piece.
const readPiece = 16 << 10

// messageReader is what grpc-go's transport streams have to read messages with. RecvMsg
// would collect all of a message before anybody sees its beginning, and then copy it.
type messageReader interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
}

// request is a request as it arrives, of any service. It is decoded later, so that what
// was decoded does not live while the handler waits for the next one, and the handler
// refuses in its own words what cannot be decoded.
type request struct {
	whole  mem.Buffer // all of it; nil until it has arrived
	parts  *parts     // what has arrived of one that does not come in a single frame
	header [5]byte    // ends with how many bytes it has
}

// parts is what has arrived of a request. The memory that it takes follows that, not what
// the header announces: there are pieces until half of the request has arrived, and then
// one buffer for all of it.
type parts struct {
	total, have int
	pieces      []*[]byte // from requestPool, in their order, until there is a buffer for all
	buffer      *[]byte   // for all; nil while there are pieces
}

// requestPool has buffers for requests.
var requestPool = mem.NewTieredBufferPool(requestSizes()...)

// maxPooled is the largest buffer of requestPool, in bytes.
const maxPooled = 1 << 20

// requestSizes are the sizes of buffers for requests: an ACK's, and all powers of two
// up to 1 MiB. gRPC's own pool has none between 32 KiB and 1 MiB, so each reconnecting
// client that names a thousand resources would take the latter.
func requestSizes() []int {
	sizes := []int{256}
	for size := 4 << 10; size <= maxPooled; size *= 2 {
		sizes = append(sizes, size)
	}
	return sizes
}

// begin waits for the next request and reads its header. It refuses requests of more than
// most bytes, of which nothing is read.
func (r *request) begin(from messageReader, most int) error {
	if err := from.ReadMessageHeader(r.header[:]); err != nil {
		return received(err)
	}
	if flag := r.header[0]; flag != 0 {
		// There is no encoding that it could be compressed with; see refuseEncoded.
		return status.Errorf(codes.Internal, "a request begins with the flag %d, expected 0: send requests uncompressed", flag)
	}
	if size := r.size(); size > most {
		return status.Errorf(codes.ResourceExhausted, "the request is larger than max: it has %d bytes, and the limit is %d (listen.max_receive_size)", size, most)
	}
	return nil
}

// size is how many bytes the header announces.
func (r *request) size() int { return int(binary.BigEndian.Uint32(r.header[1:])) }

// awaited is a request that a stream waits for.
type awaited struct {
	tier  *peering         // of another node; nil for a client
	first bool             // of the stream
	node  protowire.Number // the field that holds the Node
	by    *peer.Peer
}

// receive waits for the next request of a stream and reads all of it: the first one of a
// client only if its beginning shows that the client is authorized. It reports whether the
// stream is over, and what it ends with.
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

// readTo reads on until n bytes of the request have arrived, or all of it.
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

// have is how much has arrived, in bytes.
func (r *request) have() int {
	switch {
	case r.whole != nil:
		return r.size()
	case r.parts != nil:
		return r.parts.have
	}
	return 0
}

// add takes over what has arrived.
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

// room is where the next bytes go.
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
	// As much again as there is, so that there are few pieces.
	piece := requestPool.Get(min(max(p.have, FirstBytes), maxPooled))
	p.pieces = append(p.pieces, piece)
	return *piece
}

// gather makes the buffer for all of the request.
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

// whole is the request, which has arrived.
func (p *parts) whole() mem.Buffer {
	if p.total <= maxPooled {
		return mem.NewBuffer(p.buffer, requestPool)
	}
	return mem.SliceBuffer(*p.buffer)
}

// free gives the memory back.
func (p *parts) free() {
	if p.buffer != nil && p.total <= maxPooled {
		requestPool.Put(p.buffer)
	}
	for _, piece := range p.pieces {
		requestPool.Put(piece)
	}
}

// beginning is what has arrived of the request, at most [FirstBytes] of it.
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

// bytes is the request, once it is whole. They are good until it is freed.
func (r *request) bytes() []byte {
	if r.whole == nil {
		return nil
	}
	return r.whole.ReadOnlyData()
}

// free gives the memory back.
func (r *request) free() {
	if r.whole != nil {
		r.whole.Free()
	}
	if r.parts != nil {
		r.parts.free()
	}
	*r = request{}
}

// decode reads the request as one of a variant. The result is good until the request is
// freed.
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

// received is the error of a receive as RecvMsg would return it.
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
