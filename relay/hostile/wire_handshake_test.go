package hostile

import (
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// TestWireHandshake: a server that closes the first connection without an answer, as a node
// does whose time for handshakes has run out, is tried once more: what an attack expects of
// a stream is not the end of a connection that the server has not taken.
func TestWireHandshake(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	takes := grpc.NewServer()
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Close()
		takes.Stop()
		<-ended
	})
	go func() {
		defer close(ended)
		first, err := server.Accept()
		if err != nil {
			return
		}
		_ = first.Close()
		_ = takes.Serve(server)
	}()
	s := &stage{ports: ports{XDS: server.Addr().String()}}
	w := s.wire(t, false)
	id := w.open(deltaMethod)
	w.refused(id, code(codes.Unimplemented))
	w.close()
}
