package relay_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// statusOf asks a node who has what.
func statusOf(t *testing.T, cc grpc.ClientConnInterface, req *statusv3.ClientStatusRequest) (all []*statusv3.ClientConfig, responses int) {
	t.Helper()
	stream, err := statusv3.NewClientStatusDiscoveryServiceClient(cc).StreamClientStatus(t.Context())
	if err == nil {
		err = stream.Send(req)
	}
	if err == nil {
		err = stream.CloseSend()
	}
	for err == nil {
		var rsp *statusv3.ClientStatusResponse
		if rsp, err = stream.Recv(); err == nil {
			all = append(all, rsp.GetConfig()...)
			responses++
		}
	}
	if !errors.Is(err, io.EOF) {
		t.Fatalf("client status: %v", err)
	}
	return all, responses
}

// linesOf writes configs, a line for each resource: who, in which scope, what,
// at which version, and how that stands.
func linesOf(configs []*statusv3.ClientConfig) []string {
	var lines []string
	for _, c := range configs {
		for _, g := range c.GetGenericXdsConfigs() {
			line := fmt.Sprintf("%s in %s: %s", c.GetNode().GetId(), c.GetClientScope(), g.GetName())
			if g.GetVersionInfo() != "" {
				line += "@" + g.GetVersionInfo()
			}
			if s := g.GetConfigStatus(); s != statusv3.ConfigStatus_UNKNOWN {
				line += " " + s.String()
			}
			if s := g.GetClientStatus(); s != adminv3.ClientResourceStatus_UNKNOWN {
				line += " " + s.String()
			}
			if e := g.GetErrorState(); e != nil {
				line += " (" + e.GetDetails() + ")"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// waitLines waits until the lines are as expected, in which "…" stands for
// anything.
func waitLines(t *testing.T, cc grpc.ClientConnInterface, want ...string) {
	t.Helper()
	var got []string
	defer func() {
		if t.Failed() {
			t.Logf("the last lines were:\n\t%s", strings.Join(got, "\n\t"))
		}
	}()
	same := func(got, want string) bool {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".+")
		return regexp.MustCompile("^" + pattern + "$").MatchString(got)
	}
	xdstest.Eventually(t, "the status:\n\t"+strings.Join(want, "\n\t"), func() bool {
		configs, _ := statusOf(t, cc, &statusv3.ClientStatusRequest{})
		got = linesOf(configs)
		return slices.EqualFunc(got, want, same)
	})
}

// statusConfig is a configuration that shows who has what to clients.
func statusConfig(addr string, variant config.Variant) *config.Config {
	cfg := originConfig(addr)
	cfg.Downstream.CSDS = true
	cfg.Upstream.Variant = variant
	return cfg
}

// TestClientStatus: K20: of each client it is told what it acknowledged, what it
// rejected and why, and what it was not sent; of the relay itself, as a client of
// the control plane, what it was sent, has rejected and why, waits for, and waited
// for in vain. The key is the scope of both.
func TestClientStatus(t *testing.T) {
	for _, variant := range []config.Variant{config.SotW, config.Delta} {
		t.Run(string(variant), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testClientStatus(t, variant) }) })
	}
}

func testClientStatus(t *testing.T, variant config.Variant) {
	network := xdstest.NewMemory()
	o := network.NewOrigin(t)
	cfg := statusConfig(o.Addr(), variant)
	cfg.Upstream.ResourceTimeout = 300 * time.Millisecond
	n := startWith(t, cfg, relay.Options{Version: "v-test", Listen: network.Listen, Dial: network.Dial})
	conn := network.Client(t, n.Addr())
	good, bad := conn.Open(xdstest.SotW), conn.Open(xdstest.SotW)
	good.Subscribe(xdstest.EndpointType, "a", "b")
	st := o.NextStream(t)
	st.NextRequest(t)
	me := st.Node().GetId()
	ask := func(lines ...string) {
		t.Helper()
		waitLines(t, conn.ClientConn(), lines...)
	}
	ask(me+" in test-cluster: a REQUESTED", me+" in test-cluster: b REQUESTED",
		"test-client in test-cluster: a NOT_SENT", "test-client in test-cluster: b NOT_SENT")
	st.Respond(t, xdstest.EndpointType, "1", xdstest.Endpoints("a", "10.0.0.1:80"))
	good.Ack(good.Recv(t))
	held := "@…"
	if variant == config.Delta {
		held = "@1"
	}
	// After the time for it, b does not exist (C12).
	ask(me+" in test-cluster: a"+held+" ACKED", me+" in test-cluster: b DOES_NOT_EXIST",
		"test-client in test-cluster: a@… SYNCED", "test-client in test-cluster: b NOT_SENT")

	bad.Subscribe(xdstest.EndpointType, "a")
	bad.Nack(bad.Recv(t), "not to my taste")
	ask(me+" in test-cluster: a"+held+" ACKED", me+" in test-cluster: b DOES_NOT_EXIST",
		"test-client in test-cluster: a@… SYNCED", "test-client in test-cluster: b NOT_SENT",
		"test-client in test-cluster: a@… ERROR (not to my taste)")
	bad.Cancel()

	// A copy whose body contradicts its name is rejected (A3), and the
	// last one stays.
	other := xdstest.Endpoints("other", "10.0.0.2:80")
	var wrong proto.Message = xdstest.Named{Name: "a", Message: other}
	if variant == config.SotW {
		wrong = xdstest.Any(&discoveryv3.Resource{Name: "a", Resource: xdstest.Any(other)})
	}
	st.Respond(t, xdstest.EndpointType, "2", wrong)
	ask(me+" in test-cluster: a"+held+" NACKED (…)", me+" in test-cluster: b DOES_NOT_EXIST",
		"test-client in test-cluster: a@… SYNCED", "test-client in test-cluster: b NOT_SENT")

	o.Stop()
	good.Subscribe(xdstest.EndpointType, "c")
	ask(me+" in test-cluster: a"+held+" NACKED (…)", me+" in test-cluster: b DOES_NOT_EXIST", me+" in test-cluster: c TIMEOUT (…)",
		"test-client in test-cluster: a@… SYNCED", "test-client in test-cluster: b NOT_SENT", "test-client in test-cluster: c NOT_SENT")
}

// TestClientStatusShows: K20: what is told of a resource, and that contents are
// left out where that is asked for, and those of secrets in any case.
func TestClientStatusShows(t *testing.T) {
	o := xdstest.NewStateOrigin(t, nil)
	cluster, secret := xdstest.Cluster("c", time.Second), xdstest.Secret("s", "certificate", "private key")
	o.Set("", cluster)
	o.Set("", secret)
	n := start(t, statusConfig(o.Addr(), config.Delta))
	conn := xdstest.Dial(t, n.Addr())
	s := conn.Open(xdstest.Delta)
	s.Subscribe(xdstest.ClusterType, "c")
	s.Ack(s.Recv(t))
	s.Subscribe(xdstest.SecretType, "s")
	s.Ack(s.Recv(t))
	waitLines(t, conn.ClientConn(), "… in test-cluster: c@… ACKED", "… in test-cluster: s@… ACKED",
		"test-client in test-cluster: c@… SYNCED", "test-client in test-cluster: s@… SYNCED")
	for _, exclude := range []bool{false, true} {
		configs, _ := statusOf(t, conn.ClientConn(), &statusv3.ClientStatusRequest{ExcludeResourceContents: exclude})
		if len(configs) != 2 {
			t.Fatalf("%d configs", len(configs))
		}
		for _, c := range configs {
			for _, g := range c.GetGenericXdsConfigs() {
				if time.Since(g.GetLastUpdated().AsTime()) > time.Minute {
					t.Errorf("%s was updated at %v", g.GetName(), g.GetLastUpdated().AsTime())
				}
				var want *anypb.Any
				if g.GetTypeUrl() == xdstest.ClusterType && !exclude {
					want = xdstest.Any(cluster)
				}
				if !proto.Equal(g.GetXdsConfig(), want) {
					t.Errorf("exclude %v: content of %s is %v", exclude, g.GetName(), g.GetXdsConfig())
				}
			}
		}
	}
}

// TestClientStatusFilters: K20: a request may name the nodes that it asks about.
func TestClientStatusFilters(t *testing.T) {
	o := xdstest.NewStateOrigin(t, nil)
	o.Set("", xdstest.Cluster("c", time.Second))
	n := start(t, statusConfig(o.Addr(), config.Delta))
	var conn *xdstest.Conn
	for _, id := range []string{"a1", "a2", "b1"} {
		conn = xdstest.Dial(t, n.Addr())
		conn.Node = xdstest.Node(id, "k")
		s := conn.Open(xdstest.Delta)
		s.Subscribe(xdstest.ClusterType, "c")
		s.Ack(s.Recv(t))
	}
	about := func(m *matcherv3.StringMatcher) *statusv3.ClientStatusRequest {
		return &statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: m}}}
	}
	prefix := func(p string) *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: p}}
	}
	for p, want := range map[string][]string{"a": {"a1", "a2"}, "b1": {"b1"}, "c": nil} {
		configs, responses := statusOf(t, conn.ClientConn(), about(prefix(p)))
		var ids []string
		for _, c := range configs {
			ids = append(ids, c.GetNode().GetId())
		}
		if !slices.Equal(ids, want) || responses != 1 {
			t.Errorf("prefix %q: %v in %d responses, expected %v", p, ids, responses, want)
		}
	}
	all, _ := statusOf(t, conn.ClientConn(), &statusv3.ClientStatusRequest{})
	relay := all[0].GetNode().GetId()
	if configs, _ := statusOf(t, conn.ClientConn(), about(prefix(relay))); len(all) != 4 || len(configs) != 1 || !proto.Equal(configs[0].GetNode(), all[0].GetNode()) {
		t.Errorf("%d configs in all, %d of the relay itself", len(all), len(configs))
	}
	_, err := statusv3.NewClientStatusDiscoveryServiceClient(conn.ClientConn()).FetchClientStatus(t.Context(), about(prefix("")))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "node_matchers[0].node_id") {
		t.Errorf("a request that means nothing: %v", err)
	}
}

// TestClientStatusIsDivided: K20: an answer that is too large for one message
// comes in several on a stream; a fetch is told so.
func TestClientStatusIsDivided(t *testing.T) {
	const resources, size = 100, 30_000
	o := xdstest.NewStateOrigin(t, nil)
	var all []proto.Message
	for i := range resources {
		all = append(all, xdstest.Cluster(fmt.Sprintf("c%03d-%s", i, strings.Repeat("x", size)), time.Second))
	}
	for _, m := range all {
		o.Set("", m)
	}
	n := start(t, statusConfig(o.Addr(), config.Delta))
	conn := xdstest.Dial(t, n.Addr())
	s := conn.Open(xdstest.Delta)
	s.Subscribe(xdstest.ClusterType)
	for got := 0; got < resources; {
		f := s.Recv(t)
		got += len(f.Names())
		s.Ack(f)
	}
	var configs []*statusv3.ClientConfig
	var responses int
	xdstest.Eventually(t, "all resources twice", func() bool {
		configs, responses = statusOf(t, conn.ClientConn(), &statusv3.ClientStatusRequest{})
		return len(linesOf(configs)) == 2*resources
	})
	if responses < 6 || responses > 20 {
		t.Errorf("%d responses for about 12 MB", responses)
	}
	client := statusv3.NewClientStatusDiscoveryServiceClient(conn.ClientConn())
	if _, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{}); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "StreamClientStatus") {
		t.Errorf("fetching all of it: %v", err)
	}
	nobody := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: "nobody"}}
	rsp, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{NodeId: nobody}}})
	if err != nil || len(rsp.GetConfig()) != 0 {
		t.Errorf("fetching nothing: %v, %v", rsp, err)
	}
}

// TestClientStatusV2: J1: version 2 of the service is never there.
func TestClientStatusV2(t *testing.T) {
	cfg := statusConfig(xdstest.NewStateOrigin(t, nil).Addr(), config.Delta)
	cfg.Downstream.XDSV2 = true
	conn := xdstest.Dial(t, start(t, cfg).Addr())
	for _, method := range []string{"StreamClientStatus", "FetchClientStatus"} {
		err := conn.ClientConn().Invoke(t.Context(), "/envoy.service.status.v2.ClientStatusDiscoveryService/"+method,
			&statusv3.ClientStatusRequest{}, &statusv3.ClientStatusResponse{})
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// TestClientStatusOfErrors: K20, C16: what the control plane has answered with an
// error is told as such.
func TestClientStatusOfErrors(t *testing.T) {
	o := xdstest.NewOrigin(t)
	n := start(t, statusConfig(o.Addr(), config.Delta))
	conn := xdstest.Dial(t, n.Addr())
	s := conn.Open(xdstest.Delta)
	s.Subscribe(xdstest.EndpointType, "a")
	st := o.NextStream(t)
	st.NextRequest(t)
	err := st.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdstest.EndpointType, Nonce: "1", ResourceErrors: []*discoveryv3.ResourceError{{
		ResourceName: &discoveryv3.ResourceName{Name: "a"},
		ErrorDetail:  &statuspb.Status{Code: int32(codes.PermissionDenied), Message: "not for you"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	waitLines(t, conn.ClientConn(), "… in test-cluster: a RECEIVED_ERROR (not for you)", "test-client in test-cluster: a NOT_SENT")
}

// TestClientStatusOfPrivateResources: K20, K17: what must not be shared is told
// with the client's own stream to the control plane, and not shown.
func TestClientStatusOfPrivateResources(t *testing.T) {
	o := xdstest.NewOrigin(t)
	n := start(t, statusConfig(o.Addr(), config.Delta))
	conn := xdstest.Dial(t, n.Addr())
	s := conn.Open(xdstest.Delta)
	s.Subscribe(xdstest.EndpointType, "a")
	serve := func(st *xdstest.OriginStream) {
		t.Helper()
		st.NextRequest(t)
		err := st.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: xdstest.EndpointType, Nonce: "1", Resources: []*discoveryv3.Resource{{
			Name: "a", Version: "1", Resource: xdstest.Any(xdstest.Endpoints("a", "10.0.0.1:80")),
			CacheControl: &discoveryv3.Resource_CacheControl{DoNotCache: true},
		}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	serve(o.NextStream(t))
	serve(o.NextStream(t)) // the client's own
	s.Ack(s.Recv(t))
	waitLines(t, conn.ClientConn(), "test-client in test-cluster: a@1 ACKED", "test-client in test-cluster: a@1 SYNCED")
	configs, _ := statusOf(t, conn.ClientConn(), &statusv3.ClientStatusRequest{})
	for _, c := range configs {
		for _, g := range c.GetGenericXdsConfigs() {
			if g.GetXdsConfig() != nil {
				t.Errorf("content of %s is shown", g.GetName())
			}
		}
	}
}

// TestClientStatusOfACanary: CSDS compares a canary with what it was sent, and says which part it has in which
// rollout.
func TestClientStatusOfACanary(t *testing.T) {
	s := stage(t, config.Delta, 4, func(p *config.RolloutPolicy) { p.Steps[0].Bake = time.Hour })
	s.origin.Set("demo", s.revision("b")...)
	is := s.waitState("Stepping Bake")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	all := make(map[string]*statusv3.ClientConfig)
	xdstest.Eventually(t, "all answers", func() bool {
		answer, err := client.Post("http://"+s.AdminAddr()+"/v3/discovery:client_status", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		var response statusv3.ClientStatusResponse
		if err == nil {
			err = protojson.Unmarshal(text, &response)
		}
		if err != nil {
			t.Fatal(err)
		}
		stale := false
		for _, c := range response.GetConfig() {
			if strings.HasPrefix(c.GetNode().GetId(), "client-") {
				all[c.GetNode().GetId()] = c
			}
			for _, r := range c.GetGenericXdsConfigs() {
				stale = stale || r.GetConfigStatus() == statusv3.ConfigStatus_STALE
			}
		}
		return !stale
	})
	canaries := 0
	for id, c := range all {
		metadata := c.GetNode().GetMetadata().GetFields()["xdsrelay.rollout"].GetStructValue().AsMap()
		hasNew := slices.ContainsFunc(c.GetGenericXdsConfigs(), func(r *statusv3.ClientConfig_GenericXdsConfig) bool { return r.GetName() == "b" })
		if canary := metadata["arm"] == "canary"; canary != hasNew || canary && metadata["revision"] != is.Revision {
			t.Errorf("%s has the new cluster: %t, and the metadata %v, expected the revision %s", id, hasNew, metadata, is.Revision)
		} else if canary {
			canaries++
		}
	}
	if len(all) != 4 || canaries == 0 || canaries == 4 {
		t.Errorf("%d of %d clients are canaries", canaries, len(all))
	}
}
