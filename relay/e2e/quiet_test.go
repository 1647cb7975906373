//go:build e2e

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
)

// quiet is longer than a server with the default settings of grpc-go lets a client go on
// that pings it every 30 seconds: 90 to 120 s.
const quiet = 3 * time.Minute

// TestQuietControlPlanes: a bare gRPC server that says nothing for a while keeps its
// streams: the relay's keepalive suits default settings.
func TestQuietControlPlanes(t *testing.T) {
	for name, serve := range map[string]func(*testing.T) (address, key string){
		"server of the end-to-end tests": func(t *testing.T) (string, string) {
			origin := xdstest.NewControlPlane(t, nil)
			origin.SetSnapshot(t, cluster, "1", xdstest.GRPCService(service, "127.0.0.1:1")...)
			return origin.Addr(), cluster
		},
		"deploy/examples/go-control-plane": func(t *testing.T) (string, string) {
			binary := filepath.Join(t.TempDir(), "go-control-plane")
			build := exec.CommandContext(t.Context(), "go", "build", "-pgo=off", "-o", binary, "../../deploy/examples/go-control-plane")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.Join(build.Args, " "), err, out)
			}
			address := freeAddress(t)
			startProcess(t, "example", exec.CommandContext(t.Context(), binary, "-listen", address, "-every", "1h"), nil)
			return address, "web"
		},
	} {
		for _, variant := range []string{"delta", "sotw"} {
			t.Run(name+"/"+variant, func(t *testing.T) {
				t.Parallel()
				staysQuiet(t, variant, serve)
			})
		}
	}
}

func staysQuiet(t *testing.T, variant string, serve func(*testing.T) (address, key string)) {
	ctx := contextOf(t)
	address, key := serve(t)
	node := relayNode{program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: address, variant: variant, key: "node.cluster"}
	relay := node.start(ctx, t, "relay")
	client := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: node.listen, Variant: xdstest.Delta, Node: xdstest.Node("client", key)})
	client.Subscribe(xdstest.ClusterType)
	client.WaitFor(t, "a cluster", func() bool { return len(client.Held(xdstest.ClusterType)) > 0 })
	select {
	case <-time.After(quiet):
	case <-relay.done:
		t.Fatal("the relay has ended")
	}
	for line := range strings.SplitSeq(relay.output(), "\n") {
		for _, sign := range []string{"no stream to the control plane", "keepalive", "failed"} {
			if strings.Contains(line, sign) {
				t.Error(fmt.Errorf("within %v of silence: %s", quiet, line))
			}
		}
	}
}
