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

	"xdsrelay/relay/config"
)

// FuzzPeerToken: whatever a call on the peer port shows, it gets in with the tier's
// token alone, in the form that nodes send it; health is for everybody.
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
		ctx := metadata.NewIncomingContext(context.Background(), metadata.MD{authorization: {first, second}})
		health := len(method) > 23 && method[:23] == "/grpc.health.v1.Health/"
		if in := d.check(ctx, method) == nil; in != (first == shown || second == shown || health || method == "/grpc.health.v1.Health/") {
			t.Errorf("%q and %q on %q: in %t", first, second, method, in)
		}
		if in := d.check(context.Background(), method) == nil; in != (health || method == "/grpc.health.v1.Health/") {
			t.Errorf("nothing on %q: in %t", method, in)
		}
	})
}
