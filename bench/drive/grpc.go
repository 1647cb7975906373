package drive

import (
	"errors"
	"net"

	"google.golang.org/grpc"
)

// GRPC is a gRPC server's open port. The server has to be made with
// [grpc.WaitForHandlers].
func GRPC(s *grpc.Server) Listening { return grpcListening{s} }

type grpcListening struct{ *grpc.Server }

// Serve tells nothing of having been stopped, even before it began.
func (g grpcListening) Serve(l net.Listener) error {
	if err := g.Server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}
