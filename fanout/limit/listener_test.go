package limit

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"golang.org/x/net/http2"
)

// TestExplainingTakesNoRoom: a client that gets a refusal explained cannot make the node allocate memory
// for a frame that it only announces.
func TestExplainingTakesNoRoom(t *testing.T) {
	in := bytes.NewBufferString(http2.ClientPreface)
	in.Write([]byte{0xff, 0xff, 0xff, byte(http2.FrameHeaders), 0, 0, 0, 0, 1})
	if err := answerFirst(io.Discard, in, "full"); !errors.Is(err, http2.ErrFrameTooLarge) {
		t.Errorf("a frame of 16 MiB: %v", err)
	}
}
