package conn

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"pgregory.net/rapid"
)

// wire is a network connection that records what is written to it.
type wire struct {
	net.Conn

	writes [][]byte
	broken error
}

func (w *wire) Write(p []byte) (int, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	w.writes = append(w.writes, slices.Clone(p))
	return len(p), nil
}

// written is a connection, and a writer in front of it that has a buffer as grpc-go has.
type written struct {
	*Conn

	wire   *wire
	buffer []byte
}

func newWritten(batch int) *written {
	w := &wire{}
	return &written{&Conn{Conn: w, raw: w, listener: New(nil, Config{}), in: newIncoming()}, w, make([]byte, 0, batch)}
}

// frame writes a frame of data.
func (w *written) frame(body []byte) error {
	n := len(body)
	head := []byte{byte(n >> 16), byte(n >> 8), byte(n), byte(http2.FrameData), 0, 0, 0, 0, 1}
	for _, p := range [][]byte{head, body} {
		for len(p) > 0 {
			n := min(len(p), cap(w.buffer)-len(w.buffer))
			w.buffer, p = append(w.buffer, p[:n]...), p[n:]
			if len(w.buffer) < cap(w.buffer) {
				continue
			}
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *written) flush() error {
	if len(w.buffer) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.buffer)
	clear(w.buffer) // it is used again
	w.buffer = w.buffer[:0]
	return err
}

// TestHeldIsWritten: whatever the lengths of frames, all that grpc-go has flushed is on the network, in
// the same order, and no buffer is kept; also with frames of this package between them.
func TestHeldIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWritten(rapid.SampledFrom([]int{WriteBatch, WriteBatch, 512, 32 << 10}).Draw(t, "buffer"))
		length := rapid.OneOf(rapid.IntRange(0, 600), rapid.IntRange(3*WriteBatch-20, 3*WriteBatch), rapid.IntRange(0, 16<<10))
		var want []byte
		for range rapid.IntRange(1, 5).Draw(t, "responses") {
			for i := range rapid.IntRange(1, 8).Draw(t, "frames") {
				body := bytes.Repeat([]byte{byte(i + 1)}, length.Draw(t, "length"))
				if err := w.frame(body); err != nil {
					t.Fatal(err)
				}
				want = append(append(want, byte(len(body)>>16), byte(len(body)>>8), byte(len(body)), byte(http2.FrameData), 0, 0, 0, 0, 1), body...)
			}
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			if got := bytes.Join(w.wire.writes, nil); !bytes.Equal(got, want) || w.held.buffer != nil {
				t.Fatalf("%d bytes are on the network, expected %d; a buffer is kept: %t", len(got), len(want), w.held.buffer != nil)
			}
			if rapid.Bool().Draw(t, "goes away") {
				w.sendFrames(goAway(http2.ErrCodeNo, "why"))
				want = append(want, goAway(http2.ErrCodeNo, "why")...)
			}
		}
	})
}

// TestHeldWithinAFrame: while grpc-go is within a frame, a full buffer of it is held, GOAWAY waits, and
// both follow with the rest of the frame.
func TestHeldWithinAFrame(t *testing.T) {
	w := newWritten(WriteBatch)
	if err := w.frame(make([]byte, WriteBatch+100)); err != nil {
		t.Fatal(err)
	}
	w.sendFrames(goAway(http2.ErrCodeNo, "why"))
	if len(w.wire.writes) > 0 {
		t.Fatalf("%d writes within the frame", len(w.wire.writes))
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.wire.writes); n != 2 || len(w.wire.writes[0]) != headerLen+WriteBatch+100 || !bytes.Equal(w.wire.writes[1], goAway(http2.ErrCodeNo, "why")) {
		t.Errorf("%d writes: %q", n, w.wire.writes)
	}
}

// TestHeldOfALargeResponse: a large response takes one write for each 32 KiB, and one for the rest,
// unless a batch ends with a frame.
func TestHeldOfALargeResponse(t *testing.T) {
	w := newWritten(WriteBatch)
	for range 7 {
		if err := w.frame(make([]byte, 16<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(w.wire.writes); n != 4 {
		t.Errorf("%d writes", n)
	}
}

// TestHeldAtOnce: connections that write at the same time share no buffer (run with -race).
func TestHeldAtOnce(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			w := newWritten(WriteBatch)
			for range 200 {
				if err := errors.Join(w.frame(make([]byte, 12<<10)), w.flush()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// TestHeldAndBroken: what the network rejects is an error of the call that writes, and nothing is kept.
func TestHeldAndBroken(t *testing.T) {
	w := newWritten(WriteBatch)
	w.wire.broken = errors.New("gone")
	if err := w.frame(make([]byte, 2*WriteBatch)); err != nil {
		t.Errorf("held: %v", err)
	}
	if err := w.flush(); !errors.Is(err, w.wire.broken) {
		t.Errorf("written: %v", err)
	}
	if w.held.buffer != nil {
		t.Error("a buffer is kept")
	}
}
