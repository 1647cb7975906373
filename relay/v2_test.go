package relay_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

const adsV2 = "envoy.service.discovery.v2.AggregatedDiscoveryService"

// TestVersion2: a client of version 2 is served by a node that is told to, from a
// control plane that speaks either version of the transport, apart from clients of
// version 3 (J1, J2, J4).
func TestVersion2(t *testing.T) {
	for _, transport := range []config.XDSVersion{config.V3, config.V2} {
		for _, variant := range []config.Variant{config.SotW, config.Delta} {
			t.Run(string(transport)+"/"+string(variant), func(t *testing.T) {
				o := xdstest.NewOrigin(t)
				cfg := testConfig()
				cfg.Upstream.Addresses, cfg.Upstream.Variant, cfg.Upstream.XDSVersion = []string{o.Addr()}, variant, transport
				cfg.Downstream.XDSV2, cfg.REST.Address = true, "127.0.0.1:0"
				n := start(t, cfg)
				conn := xdstest.Dial(t, n.Addr())
				old := conn.Open(xdstest.Variant{V2: true})
				old.Subscribe(xdstest.ClusterV2Type)
				st := o.NextStream(t)
				if want := (xdstest.Variant{Delta: variant == config.Delta, V2: transport == config.V2}); st.Variant != want {
					t.Errorf("the control plane is asked on %s, expected %s", st.Variant, want)
				}
				st.NextRequestOf(t, xdstest.ClusterV2Type)
				today := conn.Open(xdstest.Delta)
				today.Subscribe(xdstest.ClusterType)
				st.NextRequestOf(t, xdstest.ClusterType)
				c := xdstest.Cluster("a", time.Second)
				st.Respond(t, xdstest.ClusterV2Type, "1", xdstest.V2(c))
				f := old.RecvType(t, xdstest.ClusterV2Type)
				old.Ack(f)
				if len(f.Resources) != 1 || f.Resources[0].Body.GetTypeUrl() != xdstest.ClusterV2Type {
					t.Errorf("got %v", f)
				}
				today.Quiet(t, 50*time.Millisecond)
				st.Respond(t, xdstest.ClusterType, "1", c)
				today.Ack(today.RecvType(t, xdstest.ClusterType))
				old.Quiet(t, 50*time.Millisecond)

				p := &polled{node: n, path: "/v2/discovery:clusters"}
				if status := p.pollRaw(t, `{"node":{"id":"n","cluster":"test-cluster"}}`); status != http.StatusOK {
					t.Errorf("a poll of version 2: %d", status)
				}
			})
		}
	}
}

// pollRaw polls with a body of its own, and looks at nothing but the status.
func (p *polled) pollRaw(t *testing.T, body string) int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post("http://"+p.node.RESTAddr()+p.path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestVersion2IsOff: by default it is unknown to everybody who asks (J1).
func TestVersion2IsOff(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory, cfg.REST.Address = t.TempDir(), "127.0.0.1:0"
	cfg.Downstream.Reflection = true
	n := start(t, cfg)
	conn := xdstest.Dial(t, n.Addr())
	if st := conn.Open(xdstest.Variant{V2: true}).ExpectClosed(t); st.Code() != codes.Unimplemented {
		t.Errorf("ADS of version 2 ended %v", st)
	}
	if services := reflect(t, conn.ClientConn()); strings.Contains(services, ".v2.") {
		t.Errorf("services %s", services)
	}
	p := &polled{node: n, path: "/v2/discovery:clusters"}
	if status := p.pollRaw(t, `{"node":{"id":"n","cluster":"c"}}`); status != http.StatusNotFound {
		t.Errorf("a poll of version 2: %d", status)
	}
}

// TestReflectionOfVersion2: the services of version 2 are listed and healthy, and
// asking for their descriptors, which the program does not have, harms nobody (J1).
func TestReflectionOfVersion2(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory, cfg.Downstream.XDSV2, cfg.Downstream.Reflection = t.TempDir(), true, true
	cc := xdstest.Dial(t, start(t, cfg).Addr()).ClientConn()
	if services := reflect(t, cc); !strings.Contains(services, adsV2) {
		t.Errorf("services %s", services)
	}
	ctx, cancel := context.WithTimeout(t.Context(), xdstest.Patience)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(cc).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range []string{adsV2, "envoy.service.discovery.v3.AggregatedDiscoveryService"} {
		request := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: symbol}}
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		res, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if missing := res.GetErrorResponse() != nil; missing != (symbol == adsV2) {
			t.Errorf("%s: %v", symbol, res)
		}
	}
	res, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{Service: adsV2})
	if err != nil || res.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v, %v", res, err)
	}
}
