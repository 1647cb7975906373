//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // resolves xds:///
)

// roleVariable turns this test binary into the grpc-go client. A process of its
// own gives each client an xDS stream of its own: within one process grpc-go
// shares it.
const roleVariable = "XDSRELAY_E2E_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "grpc-go" {
		if err := callForever(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// callForever is the grpc-go client: it calls and reports until nobody reads
// what it prints.
func callForever() error {
	channel, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("client of %s: %w", target, err)
	}
	defer channel.Close()
	out := json.NewEncoder(os.Stdout)
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for range pause.C {
		if err := out.Encode(callOnce(healthpb.NewHealthClient(channel))); err != nil {
			return fmt.Errorf("report a call: %w", err)
		}
	}
	return nil
}

// callOnce makes one call and returns what to report about it.
func callOnce(health healthpb.HealthClient) call {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var header metadata.MD
	if _, err := health.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil {
		s := status.Convert(err)
		return call{Error: s.Code().String() + ": " + s.Message()}
	}
	done := call{OK: true}
	if names := header.Get(backendHeader); len(names) > 0 {
		done.Backend = names[0]
	}
	return done
}
