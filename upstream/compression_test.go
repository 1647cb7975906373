package upstream

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // as exporters of telemetry do
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestInflated: a compressed message from a server is inflated only up to the message limit,
// whatever its full size is.
func TestInflated(t *testing.T) {
	const most = 1 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gs := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		if err := grpc.SetSendCompressor(s.Context(), "gzip"); err != nil {
			return err
		}
		return s.SendMsg(wrapperspb.Bytes(make([]byte, 16*most))) // some KiB on the wire
	}))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = gs.Serve(l)
	}()
	defer func() { gs.Stop(); <-served }()
	cp, err := NewControlPlane(ControlPlaneConfig{Addresses: []string{l.Addr().String()}, Credentials: insecure.NewCredentials(), MaxReceiveBytes: most})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Close()
	if err := cp.servers[0].waitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := cp.servers[0].open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(&emptypb.Empty{}); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&incoming{}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v, expected that the message is too large", err)
	}
}
