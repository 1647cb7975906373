package ready

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"

	"google.golang.org/grpc/mem"
)

// encrypted is the Reader of a TLS connection.
//
// crypto/tls keeps the buffers of a connection at the size of the largest record and handshake
// message that it has received: 5 KiB after a handshake with certificates and the first requests, and
// up to 16 KiB more for a client that came back with many versions. It has no way to give them back,
// so this reader replaces them when they are empty, before it waits.
type encrypted struct {
	probed

	tls *tls.Conn
}

func (e *encrypted) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if !e.more {
		release(e.tls)
	}
	return e.probed.ReadOnReady(size, pool)
}

// keptSize is the largest buffer that a connection keeps: the least that crypto/tls reads with, so
// that small requests do not allocate one each time.
const keptSize = 1 << 10

// release replaces the empty read buffers of a connection. It must be called by the goroutine that
// reads, after the handshake: nothing else uses these buffers then.
func release(c *tls.Conn) {
	if !known {
		return
	}
	at := unsafe.Pointer(c)
	raw, hand := (*bytes.Buffer)(unsafe.Add(at, fields.raw)), (*bytes.Buffer)(unsafe.Add(at, fields.hand))
	input := (*bytes.Reader)(unsafe.Add(at, fields.input))
	if raw.Len() > 0 || hand.Len() > 0 || input.Len() > 0 {
		return
	}
	if hand.Cap() > 0 {
		*hand = bytes.Buffer{}
	}
	if raw.Cap() > keptSize {
		*raw = bytes.Buffer{}
		input.Reset(nil) // what it has read is memory of raw
	}
}

// offsets are where a tls.Conn has its read buffers.
type offsets struct{ raw, input, hand uintptr }

// fields is what is known of this version of crypto/tls. If its connections are made differently,
// buffers are not released.
var fields, known = offsetsOf(reflect.TypeFor[tls.Conn]())

func offsetsOf(conn reflect.Type) (o offsets, ok bool) {
	buffer, reader := reflect.TypeFor[bytes.Buffer](), reflect.TypeFor[bytes.Reader]()
	raw, hasRaw := conn.FieldByName("rawInput")
	input, hasInput := conn.FieldByName("input")
	hand, hasHand := conn.FieldByName("hand")
	ok = hasRaw && hasInput && hasHand && raw.Type == buffer && input.Type == reader && hand.Type == buffer
	return offsets{raw.Offset, input.Offset, hand.Offset}, ok
}
