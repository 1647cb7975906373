//go:build e2e

package e2e

import (
	"context"
	"net"
	"strconv"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/xdstest"
)

// origin is a go-control-plane server that can go away and come back in the
// same place, as a new process would: with nothing but what it is told then.
// It belongs to the test's goroutine.
type origin struct {
	address string
	version int // grows over restarts too, as a control plane's versions must
	cache   cache.SnapshotCache
	server  *grpc.Server // nil while it is away
	cancel  context.CancelFunc
	served  chan error // what server.Serve returned
}

// everyone puts all nodes into one group, whatever their ids.
type everyone struct{}

func (everyone) ID(*corev3.Node) string { return "everyone" }

// startOrigin runs a control plane until the test ends.
func startOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{address: freeAddress(t)}
	o.start(t)
	t.Cleanup(func() { o.stop(t) })
	return o
}

// start runs the control plane, with nothing to serve yet.
func (o *origin) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", o.address)
	if err != nil {
		t.Fatalf("control plane: %v", err)
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(t.Context())
	o.cache = cache.NewSnapshotCache(true, everyone{}, nil)
	o.server = grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(o.server, server.NewServer(ctx, o.cache, nil))
	o.served = make(chan error, 1)
	go func() { o.served <- o.server.Serve(listener) }()
}

// stop ends the control plane with every stream, as a crash would. It may be
// called again.
func (o *origin) stop(t *testing.T) {
	t.Helper()
	if o.server == nil {
		return
	}
	o.cancel()
	o.server.Stop()
	if err := <-o.served; err != nil {
		t.Errorf("control plane: %v", err)
	}
	o.server = nil
}

// point makes a backend the only endpoint of the service.
func (o *origin) point(t *testing.T, backend *xdstest.Backend) {
	t.Helper()
	o.version++
	resources := map[string][]types.Resource{}
	for _, m := range xdstest.GRPCService(service, backend.Addr()) {
		resources[xdstest.TypeOf(m)] = append(resources[xdstest.TypeOf(m)], m)
	}
	snapshot, err := cache.NewSnapshot(strconv.Itoa(o.version), resources)
	if err != nil {
		t.Fatalf("snapshot %d: %v", o.version, err)
	}
	if err := o.cache.SetSnapshot(t.Context(), everyone{}.ID(nil), snapshot); err != nil {
		t.Fatalf("snapshot %d: %v", o.version, err)
	}
}
