//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/bootstrap"
	"xdsrelay/relay/xdstest"
)

// rawCore is a client of gRPC's C core with TLS that speaks xDS by itself.
const rawCore = "grpc-c-core, raw"

// TestMutualTLS is what an operator who turns on mTLS wants of real clients: those
// with a certificate that fits their claim are served, whose authority is another one
// or whose claim is not theirs get nothing, and neither a new certificate of the relay
// nor another authority ends a stream.
func TestMutualTLS(t *testing.T) {
	ctx := contextOf(t)
	first, second := xdstest.NewBackend(t, "first"), xdstest.NewBackend(t, "second")
	origin := xdstest.NewControlPlane(t, nil)
	version := 0
	pointTo := func(backend *xdstest.Backend) {
		version++
		origin.SetSnapshot(t, cluster, strconv.Itoa(version), xdstest.GRPCService(service, backend.Addr())...)
	}
	pointTo(first)

	old, next, other := xdstest.NewAuthority(t, "old"), xdstest.NewAuthority(t, "next"), xdstest.NewAuthority(t, "other")
	dir := t.TempDir()
	cert, key, ca := old.WriteFiles(dir, "127.0.0.1")
	rules := filepath.Join(dir, "relay.yaml")
	write(t, rules, []byte("authorization:\n  rules:\n    - name: own\n      match: (node.cluster + \".mesh\") in peer.dns_names\n"))
	node := relayNode{
		program: program(t), listen: freeAddress(t), admin: freeAddress(t), origin: origin.Addr(), variant: "delta", key: "node.cluster",
		flags: []string{"--config", rules, "--tls-cert", cert, "--tls-key", key, "--tls-ca", ca},
	}
	node.start(ctx, t, "the relay")

	backends := []string{portOf(t, first), portOf(t, second)}
	kinds := map[string][]string{"grpc-go": kinds["grpc-go"], rawCore: append([]string{"/usr/bin/python3", filepath.Join("clients", "python", "ads.py")}, backends...)}
	if knowsTLS(t) {
		kinds["grpc-c-core"] = []string{"/usr/bin/python3", filepath.Join("clients", "python", "client.py")}
	}
	start := func(generation, name string, server, of *xdstest.Authority) (all fleet) {
		for kind, command := range kinds {
			all = append(all, startSecure(t, kind, command, kind+"-"+generation, node.listen, server, of, name))
		}
		return all
	}
	clients := start("good", "shop.mesh", old, old)
	step(t, "clients with good certificates are served", func() error { return clients.reach(ctx, first) })
	for generation, bad := range map[string]fleet{
		"of another authority":        start("stranger", "shop.mesh", old, other),
		"with the name of another":    start("impostor", "db.mesh", old, old),
		"that do not trust the relay": start("wary", "shop.mesh", other, old),
	} {
		step(t, "clients "+generation+" get nothing", func() error { return bad.getNothing(ctx) })
		bad.end()
	}

	before := node.streams(ctx, t)
	if len(before) != len(clients) {
		t.Fatalf("there are streams of %q, expected one of each of the %d clients", before, len(clients))
	}
	newCert, newKey := next.Issue("127.0.0.1")
	for path, content := range map[string][]byte{cert: newCert, key: newKey, ca: slices.Concat(old.PEM, next.PEM)} {
		write(t, path, content)
	}
	late := start("late", "shop.mesh", next, next)
	step(t, "clients that know the new authority alone are served", func() error { return late.reach(ctx, first) })
	step(t, "all follow a change", func() error {
		pointTo(second)
		all := append(slices.Clone(clients), late...)
		return all.reach(ctx, second)
	})
	step(t, "no stream has ended", func() error {
		after := node.streams(ctx, t)
		for id, peer := range before {
			if after[id] != peer {
				return fmt.Errorf("%s had a stream from %s, and has one from %q", id, peer, after[id])
			}
		}
		return clients.unharmed()
	})
}

// write puts a file in its place.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// portOf tells the raw client of a backend.
func portOf(t *testing.T, b *xdstest.Backend) string {
	t.Helper()
	_, port, err := net.SplitHostPort(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return b.Name + "=" + port
}

// knowsTLS tells whether the C core of this machine takes the credentials "tls" of a
// bootstrap.
func knowsTLS(t *testing.T) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import grpc; print(grpc.__version__)")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("version of grpcio: %v", err)
	}
	version := strings.TrimSpace(string(out))
	parts := strings.Split(version, ".")
	minor := 0
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1]) // what is none is old
	}
	const since = 65 // 1.65 has it for sure
	knows := len(parts) > 1 && (parts[0] != "1" || minor >= since)
	t.Logf("grpcio %s; xDS over TLS with the C core: %t", version, knows)
	return knows
}

// startSecure runs a client that takes servers of an authority, and shows a
// certificate of the authority of for a name.
func startSecure(t *testing.T, kind string, command []string, id, address string, server, of *xdstest.Authority, name string) *client {
	t.Helper()
	dir := t.TempDir()
	var files bootstrap.TLS
	files.CertFile, files.KeyFile, files.CAFile = of.WriteFiles(dir, name)
	write(t, files.CAFile, server.PEM)
	text, err := bootstrap.GRPC(bootstrap.Options{Addresses: []string{address}, NodeID: id, Cluster: cluster, TLS: files})
	if err != nil {
		t.Fatalf("bootstrap of %s: %v", id, err)
	}
	return startClientWith(t, kind, command, id, string(text))
}

// getNothing waits until each client was told a few times that it is not served, and
// holds that none ever was.
func (f *fleet) getNothing(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range *f {
		err := poll(ctx, func() error {
			if err := c.proc.ended(); err != nil {
				return final{err}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case c.calls > 0:
				return final{fmt.Errorf("%s: %d calls succeeded", c.name, c.calls)}
			case len(c.failures) < 2:
				return fmt.Errorf("%s: %d calls have failed so far, want more", c.name, len(c.failures))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// streams asks the relay where each client's stream comes from.
func (n relayNode) streams(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/debug/streams?format=json", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var streams []struct {
		NodeID string `json:"node_id"`
		Peer   string `json:"peer"`
	}
	if err := json.NewDecoder(response.Body).Decode(&streams); err != nil {
		t.Fatal(err)
	}
	peers := make(map[string]string)
	for _, s := range streams {
		peers[s.NodeID] = s.Peer
	}
	t.Logf("streams of %q", slices.Sorted(maps.Keys(peers)))
	return peers
}
