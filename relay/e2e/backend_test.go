//go:build e2e

package e2e

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

// backendHeader is the response header in which a backend says who it is,
// because not every gRPC language lets a client ask for its peer.
const backendHeader = "backend"

// startBackend runs a service for the clients to call and returns its address,
// which is its name too.
func startBackend(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("backend: %v", err)
	}
	address := listener.Addr().String()
	sayWho := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := grpc.SetHeader(ctx, metadata.Pairs(backendHeader, address)); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(sayWho))
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("backend %s: %v", address, err)
		}
	})
	return address
}
