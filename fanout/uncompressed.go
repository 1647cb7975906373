package fanout

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// Requests are taken as they are. No xDS client compresses them, though gRPC libraries
// can, and grpc-go takes gzip as soon as anything in the program has registered it, as
// the exporters of telemetry do. A few KiB would then become listen.max_receive_size in
// memory before anybody is asked, on each of many streams. And it would answer likewise:
// each response compressed for that client alone, secrets included.

// asTheyAre are the options by which a server takes no compressed requests.
func (s *Server) asTheyAre() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(s.refuseEncoded),
		// The methods that are no streams are called only after their request was read.
		grpc.RPCDecompressor(noInflating{}), //nolint:staticcheck // deprecated, and there is nothing else
	}
}

// refuseEncoded refuses a stream whose client may send compressed requests, in the way
// that gRPC has for an encoding that a server does not know.
func (s *Server) refuseEncoded(srv any, gs grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	es, ok := grpc.ServerTransportStreamFromContext(gs.Context()).(interface{ RecvCompress() string })
	if ok && es.RecvCompress() != "" && es.RecvCompress() != encoding.Identity {
		var c caller
		if _, err := c.attach(gs.Context()); err != nil {
			return err
		}
		return s.refused(&c, status.Errorf(codes.Unimplemented, "requests in the encoding %q are not taken: send them uncompressed", es.RecvCompress()))
	}
	return handle(srv, gs)
}

// noInflating stands for gRPC's own decompressor.
type noInflating struct{}

var errCompressed = errors.New(`requests in the encoding "gzip" are not taken: send them uncompressed`)

func (noInflating) Do(io.Reader) ([]byte, error) { return nil, errCompressed }
func (noInflating) Type() string                 { return gzipName }
