package h2

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// answer is what a server's headers or trailers say.
type answer struct {
	httpStatus string // ":status", "" where there is none
	kind       string // content-type
	encoding   string // grpc-encoding
	status     string // grpc-status
	message    string // grpc-message, decoded
}

// decoders are shared: without a dynamic table nothing stays in a decoder from
// one header block to the next.
var decoders = sync.Pool{New: func() any { return hpack.NewDecoder(0, nil) }}

// maxHeaders bounds a header block, and each string in it.
const maxHeaders = 64 << 10

// decodeHeaders reads a complete header block.
func decodeHeaders(block []byte) (a answer, err error) {
	d := decoders.Get().(*hpack.Decoder)
	d.SetMaxStringLength(maxHeaders)
	d.SetEmitFunc(func(f hpack.HeaderField) {
		switch f.Name {
		case ":status":
			a.httpStatus = f.Value
		case "content-type":
			a.kind = f.Value
		case "grpc-encoding":
			a.encoding = f.Value
		case "grpc-status":
			a.status = f.Value
		case "grpc-message":
			a.message = percentDecode(f.Value)
		}
	})
	if _, err = d.Write(block); err == nil {
		err = d.Close()
	}
	if err != nil { // and the decoder may be in the middle of something
		return answer{}, violation(codeCompression, "header block: %v", err)
	}
	d.SetEmitFunc(nil)
	decoders.Put(d)
	return a, nil
}

// end is the status in trailers.
func (a *answer) end() Status {
	if a.status == "" {
		return a.withoutStatus()
	}
	code, err := strconv.ParseUint(a.status, 10, 32)
	if err != nil {
		return Status{Code: codes.Unknown, Message: fmt.Sprintf("grpc-status %q is no number", a.status)}
	}
	return Status{Code: codes.Code(code), Message: a.message, Told: true}
}

// withoutStatus derives a status from headers that do not belong to gRPC, as
// the gRPC documents' table of HTTP codes has it.
func (a *answer) withoutStatus() Status {
	code := codes.Unknown
	switch a.httpStatus {
	case "400":
		code = codes.Internal
	case "401":
		code = codes.Unauthenticated
	case "403":
		code = codes.PermissionDenied
	case "404":
		code = codes.Unimplemented
	case "429", "502", "503", "504":
		code = codes.Unavailable
	}
	return Status{Code: code, Message: fmt.Sprintf("HTTP status %q with content-type %q and no grpc-status", a.httpStatus, a.kind)}
}

// isGRPC reports whether the headers begin a gRPC response.
func (a *answer) isGRPC() bool {
	return a.httpStatus == "200" && strings.HasPrefix(a.kind, "application/grpc")
}

// percentDecode undoes the escapes of grpc-message. What is no valid escape
// stays as it is.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(v))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}
