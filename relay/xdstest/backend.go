package xdstest

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// backendHeader is the response header in which a backend says who it is.
const backendHeader = "x-xdstest-backend"

// Backend is a gRPC server for real clients to call: it answers health checks,
// and says in a response header who answered.
type Backend struct {
	Name string // fixed

	srv   *server
	calls atomic.Int64
}

// Backends starts n backends, named backend-0, backend-1, ….
func Backends(t TB, n int) []*Backend {
	t.Helper()
	all := make([]*Backend, n)
	for i := range all {
		all[i] = NewBackend(t, fmt.Sprintf("backend-%d", i))
	}
	return all
}

// NewBackend starts a backend.
func NewBackend(t TB, name string) *Backend {
	t.Helper()
	b := &Backend{Name: name}
	b.srv = newServer(t, (*Memory)(nil), func(g *grpc.Server) { healthpb.RegisterHealthServer(g, health{b: b}) })
	if err := b.Start(); err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// Addr is where the backend listens, the same for its life.
func (b *Backend) Addr() string { return b.srv.addr() }

// Calls is how many calls the backend has answered.
func (b *Backend) Calls() int { return int(b.calls.Load()) }

// Stop cuts all connections and refuses new ones until [Backend.Start].
func (b *Backend) Stop() { b.srv.stop() }

// Start serves again, at the same address.
func (b *Backend) Start() error { return b.srv.start() }

// WhoAnswers makes one call on a connection and says which backend answered.
func WhoAnswers(ctx context.Context, cc grpc.ClientConnInterface) (name string, err error) {
	var header metadata.MD
	r, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header))
	if err != nil {
		return "", err
	}
	who := header.Get(backendHeader)
	if r.GetStatus() != healthpb.HealthCheckResponse_SERVING || len(who) != 1 {
		return "", status.Errorf(codes.Internal, "status %v from %q: not one of the backends", r.GetStatus(), who)
	}
	return who[0], nil
}

// health is a Backend as a health service.
type health struct {
	healthpb.UnimplementedHealthServer

	b *Backend
}

// Check answers that all is well, and who says so.
func (h health) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	h.b.calls.Add(1)
	if err := grpc.SetHeader(ctx, metadata.Pairs(backendHeader, h.b.Name)); err != nil {
		return nil, err
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}
