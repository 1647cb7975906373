package h2

import (
	"encoding/binary"
	"fmt"
)

// Frame types of RFC 9113, section 6. Others are ignored, as it demands.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameRSTStream    = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags. ACK and END_STREAM share a bit on different frames.
const (
	flagEndStream  = 0x1
	flagACK        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings that are sent or heeded.
const (
	settingHeaderTableSize   = 0x1
	settingEnablePush        = 0x2
	settingInitialWindowSize = 0x4
	settingMaxFrameSize      = 0x5
)

const (
	frameHeaderLen = 9
	// maxFrame is what RFC 9113 lets anybody send who was told nothing else,
	// and nobody is told anything else.
	maxFrame = 16 << 10
	// defaultWindow is every window before SETTINGS and WINDOW_UPDATE.
	defaultWindow = 65535
	maxWindow     = 1<<31 - 1
)

// Error codes of RFC 9113, section 7, as far as they are sent or told apart.
const (
	codeNo            = 0x0
	codeProtocol      = 0x1
	codeFlowControl   = 0x3
	codeFrameSize     = 0x6
	codeRefusedStream = 0x7
	codeCancel        = 0x8
	codeCompression   = 0x9
)

// frameHeader is what every frame begins with.
type frameHeader struct {
	length int
	kind   byte
	flags  byte
	stream uint32
}

// parseFrameHeader reads the first [frameHeaderLen] bytes of b, which must be
// there.
func parseFrameHeader(b []byte) frameHeader {
	return frameHeader{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]),
		kind:   b[3],
		flags:  b[4],
		stream: binary.BigEndian.Uint32(b[5:]) &^ (1 << 31),
	}
}

func (h frameHeader) has(flag byte) bool { return h.flags&flag != 0 }

func appendFrameHeader(b []byte, length int, kind, flags byte, stream uint32) []byte {
	b = append(b, byte(length>>16), byte(length>>8), byte(length), kind, flags)
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	b = appendFrameHeader(b, 4, frameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func appendRST(b []byte, stream, code uint32) []byte {
	b = appendFrameHeader(b, 4, frameRSTStream, 0, stream)
	return binary.BigEndian.AppendUint32(b, code)
}

func appendGoAway(b []byte, code uint32) []byte {
	b = appendFrameHeader(b, 8, frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, 0) // the server opens no streams
	return binary.BigEndian.AppendUint32(b, code)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	return binary.BigEndian.AppendUint32(b, value)
}

// unpad takes the padding off a frame's payload, and the priority that HEADERS
// may carry.
func unpad(h frameHeader, payload []byte) ([]byte, error) {
	pad := 0
	if h.has(flagPadded) {
		if len(payload) == 0 {
			return nil, violation(codeFrameSize, "a padded frame without a length of its padding")
		}
		pad, payload = int(payload[0]), payload[1:]
	}
	if h.kind == frameHeaders && h.has(flagPriority) {
		if len(payload) < 5 {
			return nil, violation(codeFrameSize, "HEADERS with a priority of %d bytes, expected 5", len(payload))
		}
		payload = payload[5:]
	}
	if pad > len(payload) {
		return nil, violation(codeProtocol, "%d bytes of padding in a payload of %d", pad, len(payload))
	}
	return payload[:len(payload)-pad], nil
}

// ProtocolError is a breach of HTTP/2 by the server that ends the connection.
type ProtocolError struct {
	code uint32 // what GOAWAY says
	text string
}

func (e *ProtocolError) Error() string { return "HTTP/2: " + e.text }

func violation(code uint32, format string, args ...any) error {
	return &ProtocolError{code: code, text: fmt.Sprintf(format, args...)}
}
