package relay

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/otel/metric/noop"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	"xdsrelay/relay/config"
)

// FuzzPeerToken: whatever a call on the peer port shows, it gets in with the tier's
// token alone, in the form that nodes send it.
func FuzzPeerToken(f *testing.F) {
	const good = "tier-0123456789abcdef"
	file := filepath.Join(f.TempDir(), "token")
	if err := os.WriteFile(file, []byte(good+"\n"), 0o600); err != nil {
		f.Fatal(err)
	}
	d, err := newDoor(config.Peer{TokenFile: file}, noop.Meter{}, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer "+good, "", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources")
	f.Add("", "Bearer "+good+" ", "/"+healthpb.Health_ServiceDesc.ServiceName+"/Check")
	f.Add("bearer "+good, good, "/"+healthpb.Health_ServiceDesc.ServiceName+"/../x")
	f.Add("Bearer ", "Bearer \x00", healthpb.Health_ServiceDesc.ServiceName)
	f.Fuzz(func(t *testing.T, first, second, method string) {
		const shown = bearer + good
		call := &tap.Info{FullMethodName: method, Header: metadata.MD{authorization: {first, second}}}
		if _, err := d.admit(context.Background(), call); (err == nil) != (first == shown || second == shown) {
			t.Errorf("%q and %q on %q: %v", first, second, method, err)
		}
		if _, err := d.admit(context.Background(), &tap.Info{FullMethodName: method}); err == nil {
			t.Errorf("nothing on %q gets in", method)
		}
	})
}
