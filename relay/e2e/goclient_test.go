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
	_ "google.golang.org/grpc/encoding/gzip" // so that the client takes it, as the others do
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // resolves xds:///

	"xdsrelay/relay/xdstest"
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
		if err := out.Encode(callOnce(channel)); err != nil {
			return fmt.Errorf("report a call: %w", err)
		}
	}
	return nil
}

// callOnce makes one call and returns what to report about it.
func callOnce(channel *grpc.ClientConn) call {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	backend, err := xdstest.WhoAnswers(ctx, channel)
	if err != nil {
		s := status.Convert(err)
		return call{Error: s.Code().String() + ": " + s.Message()}
	}
	return call{OK: true, Backend: backend}
}
