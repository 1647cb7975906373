package limit

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// TestTellTakesNoRoom: who is told that it is refused cannot make the node take the
// room for a frame that it only announces.
func TestTellTakesNoRoom(t *testing.T) {
	in := bytes.NewBufferString(http2.ClientPreface)
	in.Write([]byte{0xff, 0xff, 0xff, byte(http2.FrameHeaders), 0, 0, 0, 0, 1})
	if err := answerFirst(io.Discard, in, "full"); !errors.Is(err, http2.ErrFrameTooLarge) {
		t.Errorf("a frame of 16 MiB: %v", err)
	}
}
