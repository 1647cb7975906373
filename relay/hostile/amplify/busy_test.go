package amplify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// pages are what an operator and Prometheus look at while others use the node.
var pages = []string{"/debug/streams", "/debug/keys", "/api/v1/summary", "/metrics"}

// busy lets others use the node while do runs: each of clients again and again, and an
// operator, who looks at all of them.
func (n *node) busy(t *testing.T, do func(), clients ...func(context.Context) error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for _, client := range clients {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := client(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("another client: %v", err)
					return
				}
			}
		})
	}
	others.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			ask(t, http.MethodGet, "http://"+n.Admin+pages[i%len(pages)], "")
		}
	})
	do()
	end()
	others.Wait()
}

// served is a client that opens a stream and leaves once it has had a response.
func served(cc *grpc.ClientConn, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, end := context.WithTimeout(ctx, xdstest.Patience)
		defer end()
		s, err := begun(ctx, cc, key)
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
}

// passing is a client that opens a stream, asks, and leaves when the node has read that,
// whether it has a response or not.
func passing(cc *grpc.ClientConn, key string) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := begun(ctx, cc, key)
		if err == nil {
			err = s.CloseSend()
		}
		for err == nil {
			_, err = s.Recv()
		}
		return nil // what the row does may end the stream
	}
}

func begun(ctx context.Context, cc *grpc.ClientConn, key string) (discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, error) {
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(cc).DeltaAggregatedResources(ctx, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1<<30))
	if err != nil {
		return nil, err
	}
	if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(key), TypeUrl: content.ClusterURL}); err != nil {
		return nil, errors.Join(err, s.CloseSend())
	}
	return s, nil
}

// polling is a client that polls once.
func polling(t *testing.T, n *node) func(context.Context) error {
	return func(context.Context) error {
		ask(t, http.MethodPost, "http://"+n.REST+"/v3/discovery:clusters", fmt.Sprintf(`{"node":{"id":"x","cluster":%q}}`, fleetKey))
		return nil
	}
}
