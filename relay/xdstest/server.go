package xdstest

import (
	"crypto/tls"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"xdsrelay/relay/xdsclient"
)

// server is a gRPC server that can be stopped and started again at the same
// address. Its limits are gRPC's defaults, as those of most control planes: messages
// up to 4 MiB, and a keepalive ping in five minutes.
type server struct {
	port     port               // fixed
	register func(*grpc.Server) // fixed

	mu     sync.Mutex
	tls    *tls.Config   // guarded by mu; nil for plaintext
	pinged bool          // guarded by mu; clients may send keepalive pings often
	grpc   *grpc.Server  // guarded by mu; nil while stopped
	done   chan struct{} // guarded by mu; closed when grpc has stopped serving
}

// newServer holds an address of a network; the server starts stopped and ends with the test.
func newServer(t TB, at place, register func(*grpc.Server)) *server {
	t.Helper()
	p, err := at.hold()
	if err != nil {
		t.Fatalf("%v", err)
	}
	s := &server{port: p, register: register}
	t.Cleanup(func() {
		s.stop()
		p.release()
	})
	return s
}

func (s *server) addr() string { return s.port.addr() }

// start serves again. Starting a started server does nothing.
func (s *server) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc != nil {
		return nil
	}
	l, err := s.port.listen()
	if err != nil {
		return fmt.Errorf("start the server at %s: %w", s.port.addr(), err)
	}
	creds := insecure.NewCredentials()
	if s.tls != nil {
		creds = credentials.NewTLS(s.tls)
	}
	options := []grpc.ServerOption{grpc.Creds(creds), grpc.WaitForHandlers(true)}
	if s.pinged {
		options = append(options, grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	}
	g := grpc.NewServer(options...)
	s.register(g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = g.Serve(l) // ends by stop only; then the error says just that
	}()
	s.grpc, s.done = g, done
	return nil
}

// stop cuts every connection, as a crash does, and refuses new ones until
// start. It returns when no handler runs any more.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc == nil {
		return
	}
	s.grpc.Stop()
	<-s.done
	s.grpc, s.done = nil, nil
}

// registerDiscovery serves every method of table A-1, in both versions, with one
// handler, which learns the variant that was called.
func registerDiscovery(g *grpc.Server, handle func(Variant, grpc.ServerStream) error) {
	all := []Variant{SotW, Delta, {V2: true}, {Delta: true, V2: true}}
	for _, typeURL := range xdsclient.ServiceTypes() {
		all = append(all, Variants(typeURL)[2:]...)
	}
	services := make(map[string]*grpc.ServiceDesc)
	for _, v := range all {
		name, method := path.Split(v.Method())
		name = strings.Trim(name, "/")
		if services[name] == nil {
			services[name] = &grpc.ServiceDesc{ServiceName: name, HandlerType: (*any)(nil)}
		}
		services[name].Streams = append(services[name].Streams, grpc.StreamDesc{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, ss grpc.ServerStream) error { return handle(v, ss) },
		})
	}
	for _, desc := range services {
		g.RegisterService(desc, struct{}{})
	}
}
