package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"syscall"
)

// readSize is how much one read takes at most, and firstRead how much the first
// one takes: most of what comes is small, and thousands of clients whose turn it
// is at the same moment hold a buffer each.
const (
	readSize  = 64 << 10
	firstRead = 4 << 10
	// probeSize is one byte more than the smallest frame, so that mostly the rest of a frame follows
	// where so much was read.
	probeSize = frameHeaderLen + 1
)

// input reads from the network without holding a buffer while there is nothing
// to read. It is owned by Serve's goroutine.
type input struct {
	conn  net.Conn
	raw   syscall.RawConn // nil where bytes have to go through TLS first
	try   func(fd uintptr) bool
	left  []byte // the beginning of a frame that goes on in the next read
	fresh int    // bytes that the last read brought
	probe [probeSize]byte
	more  bool // the last read filled the probe

	// During one read.
	buf   *[]byte
	limit int
	err   error
}

func (in *input) init(nc net.Conn) {
	in.conn = nc
	if sc, ok := nc.(syscall.Conn); ok && canTry {
		if raw, err := sc.SyscallConn(); err == nil {
			in.raw, in.try = raw, in.attempt
		}
	}
}

// await waits for bytes and returns them behind what [input.keep] was given.
// They are valid until [input.release]. At most limit bytes are read.
func (in *input) await(limit int) ([]byte, error) {
	in.limit, in.err = min(limit, firstRead), nil
	if in.fresh >= firstRead { // there may be more
		in.limit = min(limit, readSize)
	}
	var err error
	switch {
	case in.raw != nil:
		if err = in.raw.Read(in.try); err == nil {
			err = in.err
		}
	default:
		err = in.through()
	}
	if err != nil {
		in.release()
		return nil, err
	}
	in.left = nil
	return *in.buf, nil
}

// take gets a buffer that begins with what is left.
func (in *input) take() []byte {
	in.buf = takeBuffer(len(in.left) + in.limit)
	return append(*in.buf, in.left...)
}

// attempt tries to read from a descriptor that may have nothing.
func (in *input) attempt(fd uintptr) bool {
	b := in.take()
	n, err := readDescriptor(fd, b[len(b):len(b)+in.limit])
	switch {
	case errors.Is(err, errTryAgain):
		in.release()
		return false
	case err == nil && n == 0:
		err = io.EOF
	}
	in.filled(b, n, err)
	return true
}

// through reads by way of TLS, which only a read can wait for: with a few bytes of its own, and what
// comes after a read that has filled them with a buffer. It never waits for more than it has: a record
// may hold as little as the last byte of a frame.
func (in *input) through() error {
	if in.more {
		in.more = false
		b := in.take()
		n, err := in.conn.Read(b[len(b) : len(b)+in.limit])
		if n == 0 {
			return err
		}
		in.filled(b, n, nil) // the next read meets the error again
		return nil
	}
	n, err := in.conn.Read(in.probe[:min(in.limit, probeSize)])
	if n == 0 {
		return err
	}
	in.more = n == probeSize
	b := in.take()
	copy(b[len(b):len(b)+n], in.probe[:n])
	in.filled(b, n, nil)
	return nil
}

// filled takes over n bytes that were read behind b.
func (in *input) filled(b []byte, n int, err error) {
	in.err, in.fresh = err, max(n, 0)
	*in.buf = b[:len(b)+in.fresh]
}

// keep remembers the end of what was read for the next time.
func (in *input) keep(rest []byte) {
	if len(rest) > 0 {
		in.left = bytes.Clone(rest)
	}
}

// release gives the buffer back.
func (in *input) release() {
	if in.buf != nil {
		giveBuffer(in.buf)
		in.buf = nil
	}
}

// drop lets go of everything.
func (in *input) drop() {
	in.release()
	in.left = nil
}
