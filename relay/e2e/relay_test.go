//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// program is the built xdsrelay; `make e2e` builds it. The variable
// E2E_BINARY names another one.
func program(t *testing.T) string {
	t.Helper()
	path := os.Getenv("E2E_BINARY")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "xdsrelay")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatalf("path of the program: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no program to test (`make e2e` builds it): %v", err)
	}
	return path
}

// relayNode says how a relay under test runs. It keeps its addresses, so that
// it can be started again in the same place.
type relayNode struct {
	program string
	listen  string // where clients come
	admin   string
	origin  string // address of the control plane
	variant string // "sotw" or "delta"
	key     string // CEL expression of the aggregation key; empty for that of the configuration

	compression string   // downstream.compression.min_size, with the mode always; empty means the default
	flags       []string // further ones
	env         []string // further variables
}

// start runs the relay and waits until it is up.
func (n relayNode) start(ctx context.Context, t *testing.T, name string) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), n.program, "run",
		"--listen", n.listen,
		"--upstream", n.origin,
		"--upstream-variant", n.variant,
		"--admin", n.admin,
	)
	if n.key != "" {
		cmd.Args = append(cmd.Args, "--key-expression", n.key)
	}
	cmd.Args = append(cmd.Args, n.flags...)
	cmd.Env = append(os.Environ(), n.env...)
	if n.compression != "" {
		cmd.Env = append(cmd.Env, "XDSRELAY_DOWNSTREAM_COMPRESSION_MODE=always", "XDSRELAY_DOWNSTREAM_COMPRESSION_MIN_SIZE="+n.compression)
	}
	p := startProcess(t, name, cmd, nil)
	up, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err := poll(up, func() error {
		if err := p.ended(); err != nil {
			return final{err}
		}
		return n.healthy(up)
	})
	if err != nil {
		t.Fatalf("%s is not up: %v", name, err)
	}
	return p
}

// healthy asks the relay's admin address.
func (n relayNode) healthy(ctx context.Context) error {
	url := "http://" + n.admin + "/healthz"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s, want 200", url, response.Status)
	}
	return nil
}

// givenAddresses are those that freeAddress has returned, or found to be taken.
var givenAddresses sync.Map

// freeAddress returns a loopback address that nothing listens on, to be
// listened on again and again. Its port is below those that the system gives to
// outgoing connections, so that nobody gets it in between, not even a client
// that is trying to connect to it. No two calls return the same, though nothing may
// listen on the first one's yet.
func freeAddress(t *testing.T) string {
	t.Helper()
	const from, to, tries = 20000, 32000, 100
	var err error
	for range tries {
		var listener net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(from+rand.IntN(to-from)))
		if _, given := givenAddresses.LoadOrStore(address, true); given {
			continue
		}
		if listener, err = net.Listen("tcp", address); err == nil {
			if err = listener.Close(); err == nil {
				return address
			}
		}
	}
	t.Fatalf("no free port between %d and %d in %d tries: %v", from, to, tries, err)
	return ""
}
