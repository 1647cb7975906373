package grpcgo

import (
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// Compressed requests are refused. No xDS client compresses requests, though gRPC libraries can,
// and grpc-go accepts gzip as soon as anything in the program has registered it, as telemetry
// exporters do. A few KiB would then become limits.max_request_size of memory before a client is
// authorized, on each of many streams. grpc-go would also compress its responses to such a client,
// each one for that client alone, including secrets.

// asTheyAre returns the options by which a server refuses compressed requests.
func (a *Adapter) asTheyAre() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainStreamInterceptor(a.refuseEncoded),
		// The handlers of unary methods are called only after their request was read.
		grpc.RPCDecompressor(noInflating{}), //nolint:staticcheck // deprecated, and there is nothing else
	}
}

// refuseEncoded refuses a stream whose client may send compressed requests, with the status that
// gRPC defines for an unknown encoding.
func (a *Adapter) refuseEncoded(srv any, gs grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	es, ok := grpc.ServerTransportStreamFromContext(gs.Context()).(interface{ RecvCompress() string })
	if ok && es.RecvCompress() != "" && es.RecvCompress() != encoding.Identity {
		err := status.Errorf(codes.Unimplemented, "requests in the encoding %q are not accepted: send them uncompressed", es.RecvCompress())
		a.cfg.Refused(addrOf(gs.Context()), err)
		return err
	}
	return handle(srv, gs)
}

// noInflating replaces gRPC's decompressor.
type noInflating struct{}

var errCompressed = errors.New(`requests in the encoding "gzip" are not accepted: send them uncompressed`)

func (noInflating) Do(io.Reader) ([]byte, error) { return nil, errCompressed }
func (noInflating) Type() string                 { return gzipName }
