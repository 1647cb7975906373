package relay_test

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/xdstest"
)

// TestCompressedRequests: a request that is compressed is refused before it is inflated,
// and with it every stream that says it would compress: what it is sent would otherwise
// be compressed for it alone, secrets included.
func TestCompressedRequests(t *testing.T) {
	cfg := testConfig()
	cfg.Upstream.Directory = t.TempDir()
	writeResources(t, cfg.Upstream.Directory, "secrets.json", xdstest.Secret("s", strings.Repeat("x", 1000), "key"))
	n := start(t, cfg)
	c := xdstest.Dial(t, n.Addr(), grpc.WithDefaultCallOptions(grpc.UseCompressor("gzip")))
	for _, v := range append(xdstest.Variants(xdstest.SecretType), xdstest.Variant{}) {
		s := c.Open(v)
		s.Subscribe(xdstest.SecretType, "s")
		if st := s.ExpectClosed(t); st.Code() != codes.Unimplemented || !strings.Contains(st.Message(), `requests in the encoding "gzip" are not accepted`) {
			t.Errorf("%v: %v", v, st)
		}
	}

	var before, after runtime.MemStats
	bomb := &healthpb.HealthCheckRequest{Service: string(bytes.Repeat([]byte("x"), 48<<20))}
	runtime.ReadMemStats(&before)
	_, err := healthpb.NewHealthClient(c.ClientConn()).Check(t.Context(), bomb)
	runtime.ReadMemStats(&after)
	if !strings.Contains(status.Convert(err).Message(), "are not accepted") {
		t.Errorf("a unary call: %v", err)
	}
	// The client itself makes it whole twice.
	if took := after.TotalAlloc - before.TotalAlloc; took > 120<<20 {
		t.Errorf("%d MiB were allocated", took>>20)
	}
	supplied := xdstest.Dial(t, n.Addr()).Open(xdstest.Delta)
	supplied.Subscribe(xdstest.SecretType, "s")
	if f := supplied.Recv(t); len(f.Resources) != 1 {
		t.Errorf("a client that does not compress got %v", f)
	}
}
