package relay_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestEveryServiceIsGuarded: whichever service of a client port is asked, it is the
// rules that let clients in; but for health, which is asked by probes.
func TestEveryServiceIsGuarded(t *testing.T) {
	dir := t.TempDir()
	writeResources(t, dir, "all.json", xdstest.Cluster("a", time.Second))
	cfg := testConfig()
	cfg.Upstream.Directory = dir
	cfg.Downstream.CSDS = true
	cfg.REST.Address = "127.0.0.1:0"
	cfg.Listeners = append(cfg.AllListeners(), config.NamedListener{Name: "inner", Listener: config.Listener{Address: "127.0.0.1:0"}})
	cfg.Authorization.Rules = []authorize.Rule{{Name: "inner", Match: `listener in ["inner", "poll"]`}}
	n := start(t, cfg)

	outer, inner := xdstest.Dial(t, n.Addr()), xdstest.Dial(t, n.ListenerAddr("inner"))
	refused := func(what string, err error) {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(status.Convert(err).Message(), "inner") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, v := range []xdstest.Variant{{}, {Delta: true}, {Service: xdstest.ClusterType}} {
		s := outer.Open(v)
		s.Subscribe(xdstest.ClusterType)
		refused(v.String(), s.ExpectClosed(t).Err())
	}
	csds := statusv3.NewClientStatusDiscoveryServiceClient(outer.ClientConn())
	_, err := csds.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{Node: xdstest.Node("a", "b")})
	refused("client status", err)
	stream, err := csds.StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&statusv3.ClientStatusRequest{}); err != nil {
		t.Fatal(err)
	}
	_, err = stream.Recv()
	refused("client status, streamed", err)
	poll := func() (int, string) {
		rsp, err := http.Post("http://"+n.RESTAddr()+"/v3/discovery:clusters", "application/json", strings.NewReader(`{"node":{"id":"a","cluster":"b"}}`))
		if err != nil {
			t.Fatal(err)
		}
		defer rsp.Body.Close()
		body, _ := io.ReadAll(rsp.Body)
		return rsp.StatusCode, string(body)
	}
	if code, body := poll(); code != http.StatusForbidden || !strings.Contains(body, "tried: inner") {
		t.Errorf("a poll: %d %s", code, body)
	}
	if _, err := grpc_health_v1.NewHealthClient(outer.ClientConn()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}

	s := inner.Open(xdstest.Delta)
	s.Subscribe(xdstest.ClusterType)
	s.Ack(s.Recv(t))
	if _, err := statusv3.NewClientStatusDiscoveryServiceClient(inner.ClientConn()).FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); err != nil {
		t.Errorf("client status of who is let in: %v", err)
	}
	if _, body := n.get(t, "/metrics"); !strings.Contains(body, `xdsrelay_rejections_total{reason="no_rule",where="authorization"}`) || strings.Contains(body, `reason="permission_denied"`) {
		t.Errorf("the metrics lack the rejections, or count them twice:\n%s", body)
	}
}
