//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestCompressedResponses: clients of each kind take responses that are compressed
// once for all of them, each with a tail of its own, and follow what they say. In
// the whole time fewer bytes reach a client than one of the responses has.
func TestCompressedResponses(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) { testCompressed(t, kind) })
	}
}

func testCompressed(t *testing.T, kind string) {
	const states = 4
	ctx := contextOf(t)
	backends := []*xdstest.Backend{xdstest.NewBackend(t, "first"), xdstest.NewBackend(t, "second")}
	origin := xdstest.NewControlPlane(t, nil)
	size := 0
	serve := func(state int) *xdstest.Backend {
		backend := backends[state%len(backends)]
		resources := largeService(backend.Addr(), state)
		for _, r := range resources {
			size = max(size, proto.Size(r))
		}
		origin.SetSnapshot(t, cluster, strconv.Itoa(state), resources...)
		return backend
	}
	backend := serve(0)
	node := relayNode{
		program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: origin.Addr(),
		variant: "delta", key: "node.cluster", compression: "1KiB",
	}
	relay := node.start(ctx, t, "the relay")
	wire := xdstest.NewNetwork(t, node.listen)
	clients := fleet{startClient(t, kind, kind+"-1", wire.Addr()), startClient(t, kind, kind+"-2", node.listen)}

	for state := range states {
		if state > 0 {
			backend = serve(state)
		}
		step(t, fmt.Sprintf("state %d is followed", state), func() error { return clients.reach(ctx, backend) })
	}
	step(t, "routes and endpoints were compressed, once for both clients", func() error {
		const bodies = 2 * states
		return node.compressed(ctx, bodies, bodies*len(clients))
	})
	step(t, "few bytes went to the client", func() error {
		if _, carried := wire.Carried(); carried > int64(size) {
			return fmt.Errorf("%d bytes, want at most %d", carried, size)
		}
		return nil
	})
	step(t, "no call has failed", clients.unharmed)
	step(t, "the relay stops when it is told to", func() error {
		clients.end()
		return relay.terminate()
	})
}

// largeService is a service with one backend, whose routes and endpoints hold much
// that no client uses.
func largeService(backend string, state int) []proto.Message {
	const many = 1000
	resources := xdstest.GRPCService(service, backend)
	for _, r := range resources {
		switch r := r.(type) {
		case *routev3.RouteConfiguration:
			for i := range many {
				host := xdstest.VirtualHost(fmt.Sprintf("other-%d-%d", i, state), "nowhere", fmt.Sprintf("other-%d.example.com", i))
				r.VirtualHosts = append(r.VirtualHosts, host)
			}
		case *endpointv3.ClusterLoadAssignment:
			for i := range many {
				down := xdstest.LbEndpoint(fmt.Sprintf("10.%d.%d.%d:80", i>>8, i&255, 1+state))
				down.HealthStatus = corev3.HealthStatus_UNHEALTHY
				r.Endpoints[0].LbEndpoints = append(r.Endpoints[0].LbEndpoints, down)
			}
		}
	}
	return resources
}

// compressed returns an error unless the relay has compressed so many bodies, but
// for a few that newcomers may need beside them, and sent at least so many
// responses in that form.
func (n relayNode) compressed(ctx context.Context, bodies, responses int) error {
	metrics, err := n.metrics(ctx)
	if err != nil {
		return err
	}
	if got := metrics["xdsrelay_downstream_bodies_compressed_total"]; got < float64(bodies) || got > float64(bodies+2) {
		return fmt.Errorf("%v bodies were compressed, want %d", got, bodies)
	}
	if got := metrics["xdsrelay_downstream_compressed_responses_total"]; got < float64(responses) {
		return fmt.Errorf("%v responses went out compressed, want at least %d", got, responses)
	}
	if saved, sent := metrics["xdsrelay_downstream_compression_saved_bytes_total"], metrics["xdsrelay_downstream_sent_bytes_total"]; saved < sent {
		return fmt.Errorf("%v bytes were saved where %v were sent, want more", saved, sent)
	}
	return nil
}

// metrics returns the relay's metrics by name, summed over their labels.
func (n relayNode) metrics(ctx context.Context) (map[string]float64, error) {
	url := "http://" + n.admin + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	sums := map[string]float64{}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] == "#" {
			continue
		}
		name, _, _ := strings.Cut(words[0], "{")
		value, err := strconv.ParseFloat(words[len(words)-1], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", url, lines.Text(), err)
		}
		sums[name] += value
	}
	return sums, lines.Err()
}
