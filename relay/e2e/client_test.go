//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"xdsrelay/relay/bootstrap"
)

// kinds are the xDS clients under test, each with the command that runs it.
var kinds = map[string][]string{
	"grpc-go":     {os.Args[0]}, // this test binary: see TestMain
	"grpc-c-core": {"/usr/bin/python3", filepath.Join("clients", "python", "client.py")},
	"grpc-js":     {"node", filepath.Join("clients", "node", "client.js")},
}

// call is the line that a client prints for each call.
type call struct {
	OK      bool   `json:"ok"`
	Backend string `json:"backend"`
	Error   string `json:"error"`
}

// client is a running xDS client and what its calls have come to.
type client struct {
	name string   // fixed
	proc *process // fixed after startClient

	mu       sync.Mutex
	calls    int      // guarded by mu: how many succeeded
	backend  string   // guarded by mu: who answered the last one that succeeded
	streak   int      // guarded by mu: how many in a row that backend answered
	failures []string // guarded by mu: every call that failed, and lines that are no call
}

// startClient runs a new client of a kind against the xDS server at address.
func startClient(t *testing.T, kind, name, server string) *client {
	t.Helper()
	return startClientWith(t, kind, kinds[kind], name, bootstrapOf(t, server, name))
}

// startClientWith runs the command of a kind with a bootstrap.
func startClientWith(t *testing.T, kind string, command []string, name, text string) *client {
	t.Helper()
	c := &client{name: name}
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	// A file that the environment names would win over the bootstrap given here.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "GRPC_XDS_BOOTSTRAP=")
	})
	cmd.Env = append(cmd.Env,
		"GRPC_XDS_BOOTSTRAP_CONFIG="+text,
		"no_proxy=127.0.0.1",
		roleVariable+"="+kind,
	)
	c.proc = startProcess(t, name, cmd, c.record)
	return c
}

// bootstrapOf returns the xDS bootstrap of a client whose node has id.
func bootstrapOf(t *testing.T, server, id string) string {
	t.Helper()
	text, err := bootstrap.GRPC(bootstrap.Options{
		Addresses: []string{server}, NodeID: id, Cluster: cluster,
		Locality: bootstrap.Locality{Region: "r", Zone: "z"}, // grpc-js refuses a node without one
	})
	if err != nil {
		t.Fatalf("bootstrap of %s: %v", id, err)
	}
	return string(text)
}

// record takes one line of the client's output.
func (c *client) record(line string) {
	var done call
	err := json.Unmarshal([]byte(line), &done)
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Format("15:04:05.000 ")
	switch {
	case err != nil:
		c.failures = append(c.failures, at+"not a line of JSON: "+line)
	case !done.OK:
		c.failures = append(c.failures, at+done.Error)
		c.streak = 0
	case done.Backend == c.backend:
		c.calls++
		c.streak++
	default:
		c.calls++
		c.backend, c.streak = done.Backend, 1
	}
}

// reaches waits until a few calls in a row were answered by backend. A client
// that has seen a call fail, or has ended, is given up at once.
func (c *client) reaches(ctx context.Context, backend string) error {
	const enough = 3
	return poll(ctx, func() error {
		if err := c.unharmed(); err != nil {
			return final{err}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.backend == backend && c.streak >= enough {
			return nil
		}
		return fmt.Errorf("%s: want %d calls in a row answered by %s; the last of %d calls was answered by %q (%d in a row)",
			c.name, enough, backend, c.calls, c.backend, c.streak)
	})
}

// succeeded returns how many calls have succeeded so far.
func (c *client) succeeded() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// unharmed returns an error if a call has failed so far or the client has ended.
func (c *client) unharmed() error {
	if err := c.proc.ended(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.failures) > 0 {
		return fmt.Errorf("%s: %d calls failed (%d succeeded), the first: %s", c.name, len(c.failures), c.calls, c.failures[0])
	}
	return nil
}
