package conn

import (
	"io"
	"slices"
	"sync"
)

// WriteBatch is the size of grpc-go's write buffer for a connection of a [Listener], in bytes. grpc-go
// takes a whole one for a response of any size, and keeps it until the connection's writer has run
// once more: after a change for all clients, all connections have one.
const WriteBatch = 4 << 10

// MaxWrite bounds one write to the network, and what is kept for a client that does not read, in bytes.
const MaxWrite = 32 << 10

// held is what grpc-go has written and the network has not got yet. grpc-go writes as often as its
// buffer is full, which would be a system call for every 4 KiB. So what ends within a frame is held:
// grpc-go is about to write the rest of the frame, without waiting for anything. Only as long as that
// takes is there a buffer for it, so few connections have one at a time. The zero value holds nothing.
type held struct {
	buffer *[]byte // from one of the pools; nil: nothing is held
}

// heldSizes are the sizes of buffers, in bytes.
var heldSizes = [...]int{8 << 10, MaxWrite}

var heldPools [len(heldSizes)]sync.Pool // of *[]byte

// takes reports whether p is held: it fills grpc-go's buffer, and does not end between two frames.
func (h *held) takes(p []byte, between bool) bool {
	if len(p) != WriteBatch || between {
		return false
	}
	size := h.len() + len(p)
	if size >= MaxWrite {
		return false
	}
	if h.buffer == nil || size > cap(*h.buffer) {
		h.grow(size)
	}
	*h.buffer = append(*h.buffer, p...)
	return true
}

func (h *held) len() int {
	if h.buffer == nil {
		return 0
	}
	return len(*h.buffer)
}

// grow makes room for size bytes.
func (h *held) grow(size int) {
	i := 0
	for heldSizes[i] < size {
		i++
	}
	larger, ok := heldPools[i].Get().(*[]byte)
	if !ok {
		larger = new(make([]byte, 0, heldSizes[i]))
	}
	if h.buffer != nil {
		*larger = append(*larger, *h.buffer...)
		h.release()
	}
	h.buffer = larger
}

// release returns the buffer, and what it holds is gone.
func (h *held) release() {
	buffer := h.buffer
	h.buffer = nil
	i := slices.Index(heldSizes[:], cap(*buffer))
	*buffer = (*buffer)[:0]
	heldPools[i].Put(buffer)
}

// writeTo writes what is held, and p after it, as one piece unless p is longer than grpc-go's buffer.
func (h *held) writeTo(w io.Writer, p []byte) error {
	if h.buffer != nil {
		joined := len(p) <= WriteBatch
		if joined {
			if size := len(*h.buffer) + len(p); size > cap(*h.buffer) {
				h.grow(size)
			}
			*h.buffer = append(*h.buffer, p...)
		}
		_, err := w.Write(*h.buffer)
		h.release()
		if joined || err != nil {
			return err
		}
	}
	_, err := w.Write(p)
	return err
}
