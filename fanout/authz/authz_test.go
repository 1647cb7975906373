package authz

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// rig is a Gate with a log and metrics to inspect.
type rig struct {
	*Gate
	log    bytes.Buffer
	reader *sdkmetric.ManualReader
}

func newRig(t *testing.T, rules ...authorize.Rule) *rig {
	t.Helper()
	p, err := authorize.Compile(rules)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{reader: sdkmetric.NewManualReader()}
	r.Gate, err = New(Config{
		Policy: func() *authorize.Policy { return p }, Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(r.reader)).Meter("test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted returns the number of rejections by where and reason.
func (r *rig) counted(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				value := func(name string) string { v, _ := p.Attributes.Value(attribute.Key(name)); return v.String() }
				out[value("where")+" "+value("reason")] = p.Value
			}
		}
	}
	return out
}

func client(identity, address string) Client {
	return Client{Peer: aggregation.Peer{Authenticated: identity != "", SPIFFEID: identity, Address: address, Listener: "mesh"}}
}

// TestRefusals: each rejection is counted, and logged once per client, whatever Node id the client
// sends. The log has nothing of the metadata.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t,
			authorize.Rule{Name: "old", Match: `node.user_agent_name == "old"`, Deny: true},
			authorize.Rule{Name: "level", Match: `peer.authenticated && int(node.metadata.level) > 3`},
		)
		md, err := structpb.NewStruct(map[string]any{"level": "canary-7f3a"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			n := &corev3.Node{Id: fmt.Sprintf("forged-%d", i), Metadata: md}
			c := client("spiffe://corp/a", fmt.Sprintf("10.0.0.1:%d", i))
			if err := r.Admit(r.Policy(), n, c); status.Code(err) != codes.PermissionDenied {
				t.Fatal(err)
			}
			if err := r.Recheck(r.Policy(), &corev3.Node{UserAgentName: "old"}, client("", fmt.Sprintf("10.0.0.2:%d", i))); status.Code(err) != codes.PermissionDenied {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(r.counted(t)); got != "map[authorization failed:100 recheck denied:100]" {
			t.Errorf("counted %s", got)
		}
		log := r.log.String()
		if n := strings.Count(log, "\n"); n != 2 || strings.Contains(log, "canary") || !strings.Contains(log, "identity=spiffe://corp/a") || !strings.Contains(log, "rule=old") {
			t.Errorf("logged %d lines:\n%s", n, log)
		}
		time.Sleep(logAgain) //nolint:forbidigo // virtual time
		_ = r.Admit(r.Policy(), &corev3.Node{UserAgentName: "old"}, client("", "10.0.0.2:1"))
		if n := strings.Count(r.log.String(), "\n"); n != 3 {
			t.Errorf("%d lines after an hour", n)
		}
	})
}

// TestLogIsBounded: neither log lines nor memory grow with the number of rejected clients.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, authorize.Rule{Name: "nobody", Match: `listener == "none"`})
		knock := func(n int) {
			for i := range n {
				_ = r.Admit(r.Policy(), nil, client("", fmt.Sprintf("[2001:db8::%x]:1", i)))
			}
		}
		knock(20_000)
		if n := strings.Count(r.log.String(), "\n"); n != maxPerWindow {
			t.Errorf("%d lines", n)
		}
		time.Sleep(logWindow) //nolint:forbidigo // virtual time
		knock(20_000)
		if n := r.Gate.log.logged.Len(); n != 2*maxPerWindow || !strings.Contains(r.log.String(), "left_out=") {
			t.Errorf("%d are remembered, and the log says:\n%.300s", n, r.log.String())
		}
	})
}

// TestNoGate: a nil Gate rejects no client.
func TestNoGate(t *testing.T) {
	var g *Gate
	if err := errors.Join(g.Admit(g.Policy(), nil, Client{}), g.Recheck(g.Policy(), nil, ClientOf(nil))); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a gate needs no policy")
	}
}
