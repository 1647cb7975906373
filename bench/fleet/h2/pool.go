package h2

import (
	"math/bits"
	"sync"
)

// Buffers are taken by powers of two, from 4 KiB to 16 MiB. What is larger is
// made for its message alone.
const (
	minClass, maxClass = 12, 24
)

var pools [maxClass + 1]sync.Pool

// takeBuffer returns an empty buffer with room for n bytes.
func takeBuffer(n int) *[]byte {
	class := max(bits.Len(uint(max(n, 1)-1)), minClass)
	if class > maxClass {
		b := make([]byte, 0, n)
		return &b
	}
	if b, ok := pools[class].Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, 0, 1<<class)
	return &b
}

// giveBuffer gives a buffer back; nobody may refer to it any more.
func giveBuffer(b *[]byte) {
	class := bits.Len(uint(cap(*b))) - 1
	if class < minClass || class > maxClass {
		return
	}
	*b = (*b)[:0]
	pools[class].Put(b)
}
