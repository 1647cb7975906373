package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// readSize is how much one read takes at most, and firstRead how much the first
// one takes: most of what comes is small, and thousands of clients whose turn it
// is at the same moment hold a buffer each.
const (
	readSize  = 64 << 10
	firstRead = 4 << 10
)

// input reads from the network without holding a buffer while there is nothing
// to read. It is owned by Serve's goroutine.
type input struct {
	conn  net.Conn
	raw   syscall.RawConn // nil where bytes have to go through TLS first
	try   func(fd uintptr) bool
	left  []byte // the beginning of a frame that goes on in the next read
	fresh int    // bytes that the last read brought

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

// through reads by way of TLS: the first byte without a buffer, since that may
// take long, and then what else there is.
func (in *input) through() error {
	var first [1]byte
	if _, err := io.ReadFull(in.conn, first[:]); err != nil {
		return err
	}
	b := append(in.take(), first[0])
	n := 0
	var err error
	if in.limit > 1 {
		// A record of a server holds a frame header at least, so there is more.
		n, err = in.conn.Read(b[len(b) : len(b)+in.limit-1])
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = 0, nil // the next read meets it again
	}
	in.filled(b, n, err)
	in.fresh++
	return in.err
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
