package relay_test

import (
	"bytes"
	"testing"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"xdsrelay/fanout"
	"xdsrelay/relay/authorize"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// loadClusters is the number of cluster_stats in a load report, of which Node is 1.
const loadClusters = 2

// TestLoadReportsOfTheUnauthorized: of a client that is not authorized the node reads only
// the first 64 KiB of a load report, however long that is, and decodes none of it but what
// the rules read of its Node: a report of 64 KiB can have thousands of parts.
func TestLoadReportsOfTheUnauthorized(t *testing.T) {
	if detector {
		t.Skip("the race detector multiplies what is measured here")
	}
	o := xdstest.NewOrigin(t)
	o.ServeLoad()
	cfg, cc := quietNode(t, func(c *config.Config) {
		c.Upstream.Directory, c.Upstream.Addresses = "", []string{o.Addr()}
		c.Authorization.Rules = []authorize.Rule{{Name: "prod", Match: `listener == "default" && node.cluster == "prod"`}}
	})
	send := func(report []byte) error {
		return sendTo(t, cc, "/"+lrsv3.LoadReportingService_ServiceDesc.ServiceName+"/StreamLoadStats", report)
	}
	node := func(cluster string) []byte {
		b, err := proto.Marshal(xdstest.Node("client", cluster))
		if err != nil {
			t.Fatal(err)
		}
		return field(deltaNode, b)
	}
	unknown := field(unknownField, make([]byte, 64<<10))
	late := append(bytes.Repeat(unknown, 2), node("prod")...)
	for name, test := range map[string]struct {
		report []byte
		code   codes.Code
		most   int // bytes
	}{
		"large":                 {repeated(node("dev"), int(cfg.Limits.MaxRequestSize), unknown), codes.PermissionDenied, 4*fanout.FirstBytes + constant},
		"node too late":         {late, codes.InvalidArgument, 4*fanout.FirstBytes + constant},
		"64 KiB of parts":       {repeated(node("dev"), fanout.FirstBytes, field(loadClusters, nil)), codes.PermissionDenied, 4*fanout.FirstBytes + constant/8},
		"64 KiB without a node": {repeated(nil, fanout.FirstBytes, field(loadClusters, nil)), codes.InvalidArgument, 4*fanout.FirstBytes + constant/8},
	} {
		t.Run(name, func(t *testing.T) {
			_ = send(node("dev")) // what the first stream takes is none of the report's
			var err error
			got := growth(func() { err = send(test.report) })
			t.Logf("%d bytes were taken of %d", got, len(test.report))
			if got > test.most {
				t.Errorf("%d bytes were taken, expected at most %d", got, test.most)
			}
			if status.Code(err) != test.code {
				t.Errorf("the stream ended %v, expected %v", err, test.code)
			}
		})
	}
	if err := send(repeated(node("prod"), 1<<20, unknown)); err != nil {
		t.Errorf("a client that is authorized was refused: %v", err)
	}
}
