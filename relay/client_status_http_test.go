package relay_test

import (
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/xdstest"
)

// TestClientStatusOverHTTP: K20: the admin port answers the same as JSON, whether
// or not the xDS port does, also where JSON cannot spell out a resource.
func TestClientStatusOverHTTP(t *testing.T) {
	o := xdstest.NewStateOrigin(t, nil)
	o.Set("", xdstest.Cluster("c", time.Second))
	o.Set("", xdstest.Extension("e", &corev3.Node{Id: "known"}))
	strange := xdstest.Extension("strange", &corev3.Node{})
	strange.TypedConfig.TypeUrl = "type.googleapis.com/nobody.knows.This"
	// A time that JSON cannot hold.
	o.Set("", strange, xdstest.Extension("endless", &durationpb.Duration{Seconds: math.MaxInt64}))
	n := start(t, originConfig(o.Addr()))
	conn := xdstest.Dial(t, n.Addr())
	s := conn.Open(xdstest.Delta)
	s.Subscribe(xdstest.ClusterType, "c")
	s.Ack(s.Recv(t))
	s.Subscribe(xdstest.ExtensionConfigType, "e", "strange", "endless")
	s.Ack(s.Recv(t))
	post := func(body string) (int, string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Post("http://"+n.AdminAddr()+"/v3/discovery:client_status", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	read := func(body string) []*statusv3.ClientConfig {
		t.Helper()
		code, text := post(body)
		rsp := &statusv3.ClientStatusResponse{}
		if err := protojson.Unmarshal([]byte(text), rsp); code != http.StatusOK || err != nil {
			t.Fatalf("%d, %v: %s", code, err, text)
		}
		return rsp.GetConfig()
	}
	xdstest.Eventually(t, "four resources twice", func() bool { return len(linesOf(read("{}"))) == 8 })
	for _, c := range read("") {
		for _, g := range c.GetGenericXdsConfigs() {
			if (g.GetXdsConfig() == nil) != (g.GetName() == "endless") {
				t.Errorf("content of %s: %v", g.GetName(), g.GetXdsConfig())
			}
			if g.GetName() == "strange" && !strings.Contains(g.GetXdsConfig().String(), "nobody.knows.This") {
				t.Errorf("of what nobody knows the type should be shown: %v", g.GetXdsConfig())
			}
		}
	}
	if configs := read(`{"node_matchers": [{"node_id": {"exact": "test-client"}}]}`); len(configs) != 1 || configs[0].GetClientScope() != "test-cluster" {
		t.Errorf("the client: %v", configs)
	}
	if configs := read(`{"nodeMatchers": [{"nodeId": {"exact": "nobody"}}]}`); len(configs) != 0 {
		t.Errorf("nobody: %v", configs)
	}
	for _, bad := range []string{"{", `{"no_such_field": 1}`, `{"node_matchers": [{"node_id": {"prefix": ""}}]}`} {
		if code, text := post(bad); code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, code, text)
		}
	}
	// J1 and the option: neither version is there for clients.
	err := conn.ClientConn().Invoke(t.Context(), "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus",
		&statusv3.ClientStatusRequest{}, &statusv3.ClientStatusResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("clients are shown who has what: %v", err)
	}
}
