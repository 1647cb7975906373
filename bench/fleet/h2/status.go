package h2

import (
	"fmt"

	"google.golang.org/grpc/codes"
)

// Status is how a stream ended.
type Status struct {
	Code    codes.Code
	Message string
	// Told says that the server sent this status. Otherwise it was derived from
	// how the stream or the connection ended.
	Told bool
	// Breach says that the server broke the rules of gRPC or HTTP/2 for a
	// stream; Message says how.
	Breach bool
}

func (s Status) String() string {
	if s.Message == "" {
		return s.Code.String()
	}
	return fmt.Sprintf("%v: %s", s.Code, s.Message)
}

// reset is the status of a stream that ended by RST_STREAM, as the gRPC
// documents' table of error codes has it.
func reset(code uint32) Status {
	c := codes.Internal
	switch code {
	case codeRefusedStream:
		c = codes.Unavailable
	case codeCancel:
		c = codes.Canceled
	case 0xb: // ENHANCE_YOUR_CALM
		c = codes.ResourceExhausted
	case 0xc: // INADEQUATE_SECURITY
		c = codes.PermissionDenied
	}
	return Status{Code: c, Message: fmt.Sprintf("the server reset the stream with code %d", code)}
}
