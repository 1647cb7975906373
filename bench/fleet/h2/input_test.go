package h2

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

// TestNothingIsWaitedFor holds that what has come by way of TLS is taken at once, in whatever pieces it
// comes: also the last byte of a frame in a record of its own, after which there may be nothing for
// long. Were it waited for more, the bubble would have nothing left to run.
func TestNothingIsWaitedFor(t *testing.T) {
	for size := 1; size <= 3*probeSize; size++ {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe() // no socket that could be tried, as TLS
			defer far.Close()
			defer near.Close()
			var in input
			in.init(near)
			sent := bytes.Repeat([]byte("frames"), 20)[:size]
			var got []byte
			go func() { _, _ = far.Write(sent) }()
			for len(got) < size {
				b, err := in.await(readSize)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, b...)
				in.release()
			}
			if !bytes.Equal(got, sent) {
				t.Errorf("%q arrived, expected %q", got, sent)
			}
			go func() { _ = far.Close() }()
			if b, err := in.await(readSize); !errors.Is(err, io.EOF) {
				t.Errorf("%q and %v after the end, expected io.EOF", b, err)
			}
		})
	}
}
