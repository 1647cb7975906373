// Command go-control-plane is an xDS server as one writes it with go-control-plane: a
// snapshot for each key. It serves what stands behind a relay; docs/how-to/go-control-plane.md
// tells about it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	resourcev3 "github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// byCluster finds the snapshot of a client by the cluster of its Node. That is what the
// relay's keys are made of by default, so the relay asks with the same cluster for all
// clients of it.
type byCluster struct{}

func (byCluster) ID(node *corev3.Node) string { return node.GetCluster() }

// snapshot is what clients of one cluster get, at a version.
func snapshot(version int) (*cachev3.Snapshot, error) {
	shop := &clusterv3.Cluster{
		Name:                 "shop",
		ConnectTimeout:       durationpb.New(time.Duration(version) * time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}
	return cachev3.NewSnapshot(fmt.Sprint("v", version), map[resourcev3.Type][]types.Resource{
		resourcev3.ClusterType: {shop},
	})
}

// serve serves snapshots on a listener until ctx is done, and makes a new one whenever
// next says so.
func serve(ctx context.Context, l net.Listener, next <-chan time.Time) error {
	cache := cachev3.NewSnapshotCache(true, byCluster{}, nil)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, serverv3.NewServer(ctx, cache, nil))
	defer context.AfterFunc(ctx, server.Stop)()
	go func() {
		for version := 1; ; version++ {
			s, err := snapshot(version)
			if err == nil {
				err = cache.SetSnapshot(ctx, "web", s)
			}
			if err != nil {
				slog.Error("no snapshot", "version", version, "err", err)
			}
			select {
			case <-ctx.Done():
				return
			case <-next:
			}
		}
	}()
	return server.Serve(l)
}

func main() {
	address := flag.String("listen", "127.0.0.1:18080", "where to serve xDS")
	every := flag.Duration("every", 10*time.Second, "time between changes")
	flag.Parse()
	if err := run(*address, *every); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

// run serves until an interrupt.
func run(address string, every time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	if err := serve(ctx, l, time.Tick(every)); ctx.Err() == nil {
		return err
	}
	return nil
}
