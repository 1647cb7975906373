//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// contourVariable names the contour program; `make e2e` builds it.
const contourVariable = "E2E_CONTOUR"

// TestContourCommandLine: contour's command line, which has a discovery service
// for each type and can reject all that it gets, follows a control plane through
// the relay on SotW and delta (A4). One that rejects everything gets one response
// for each change and no more (B14), and is shown as such (K2); one that states
// its names again with every ACK, as it does on delta, is not answered for ever.
func TestContourCommandLine(t *testing.T) {
	for _, variant := range []string{"sotw", "delta"} {
		t.Run("upstream="+variant, func(t *testing.T) { testContour(t, variant) })
	}
}

func testContour(t *testing.T, variant string) {
	ctx := contextOf(t)
	origin := xdstest.NewLenientControlPlane(t, func(*corev3.Node) string { return "all" })
	version := 0
	change := func() {
		version++
		origin.SetSnapshot(t, "all", strconv.Itoa(version), contourState(version)...)
	}
	change()
	node := relayNode{
		program: program(t), listen: freeAddress(t), admin: freeAddress(t),
		origin: origin.Addr(), variant: variant, key: `"all"`, // it says nothing of itself but an id
	}
	relay := node.start(ctx, t, "the relay")

	var obedient, stubborn []*contour
	for _, delta := range []string{"--no-delta", "--delta"} {
		for _, what := range []string{"cds", "eds a"} {
			obedient = append(obedient, startContour(t, node.listen, what, delta, "--no-nack"))
			stubborn = append(stubborn, startContour(t, node.listen, what, delta, "--nack"))
		}
	}
	everybody := append(append([]*contour{}, obedient...), stubborn...)
	for range 4 {
		step(t, fmt.Sprintf("state %d reaches everybody", version), func() error {
			return contourReach(ctx, everybody, version)
		})
		change()
	}
	step(t, "the last state reaches everybody", func() error { return contourReach(ctx, everybody, version) })
	step(t, "the relay knows who rejects", func() error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return poll(ctx, func() error { return node.knowsContour(ctx, everybody) })
	})
	step(t, "nobody gets more than it must", func() error {
		<-time.After(3 * time.Second)
		for _, c := range stubborn {
			if n := c.received(); n > version {
				return fmt.Errorf("%s got %d responses for %d states", c.name, n, version)
			}
		}
		for _, c := range obedient {
			// Each state may be asked for again with its ACK, and that again
			// after a pause, and another one (B35).
			if n := c.received(); n > 4*version {
				return fmt.Errorf("%s got %d responses for %d states", c.name, n, version)
			}
		}
		return nil
	})
	step(t, "the relay did not reject anything", func() error {
		if counts := origin.Counts(); counts.Nacks > 0 || counts.Open != 1 {
			return fmt.Errorf("the control plane counts %+v, want one stream and no NACK", counts)
		}
		return nil
	})
	step(t, "the relay stops when it is told to", func() error {
		for _, c := range everybody {
			if err := c.proc.ended(); err != nil {
				return err
			}
			c.proc.kill()
		}
		return relay.terminate()
	})
}

// contourState is what there is at a version: two clusters, and endpoints.
func contourState(version int) []proto.Message {
	return []proto.Message{
		xdstest.Cluster("a", time.Duration(version)*time.Second), xdstest.Cluster("b", time.Minute),
		xdstest.Endpoints("a", fmt.Sprintf("127.0.0.1:%d", 1000+version)), xdstest.Endpoints("b", "127.0.0.1:2000"),
	}
}

// contour is a run of contour's command line, which prints all that it sends and
// receives.
type contour struct {
	name string // fixed; its node id
	what string // fixed: "cds" or "eds a"
	nack bool   // fixed
	proc *process

	mu     sync.Mutex
	frames int             // guarded by mu: responses received
	seen   map[string]bool // guarded by mu: lines of them, without spaces
}

func startContour(t *testing.T, server, what string, flags ...string) *contour {
	t.Helper()
	program := os.Getenv(contourVariable)
	if program == "" {
		t.Fatalf("%s names no contour program: `make e2e` builds one", contourVariable)
	}
	c := &contour{
		name: strings.NewReplacer(" ", "-", "--", "").Replace("contour-" + what + "-" + strings.Join(flags, "-")),
		what: what, nack: flags[len(flags)-1] == "--nack", seen: map[string]bool{},
	}
	args := append([]string{"cli", "--contour", server, "--node-id", c.name}, flags...)
	c.proc = startProcess(t, c.name, exec.CommandContext(t.Context(), program, append(args, strings.Fields(what)...)...), c.record)
	return c
}

// record takes one line of what is printed: messages in JSON.
func (c *contour) record(line string) {
	line = strings.TrimSuffix(strings.Join(strings.Fields(line), ""), ",")
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(line, `"control_plane":`) { // which each response of the relay has, and no request
		c.frames++
	}
	c.seen[line] = true
}

func (c *contour) received() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames
}

// reached returns an error unless all of a state was printed.
func (c *contour) reached(version int) error {
	want := []string{fmt.Sprintf(`"connect_timeout":"%ds"`, version), `"name":"a"`, `"name":"b"`}
	if c.what != "cds" {
		want = []string{`"cluster_name":"a"`, fmt.Sprintf(`"port_value":%d`, 1000+version)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range want {
		if !c.seen[w] {
			return fmt.Errorf("%s: nothing says %s in %d responses", c.name, w, c.frames)
		}
	}
	return nil
}

func contourReach(ctx context.Context, all []*contour, version int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range all {
		if err := poll(ctx, func() error {
			if err := c.proc.ended(); err != nil {
				return final{err}
			}
			return c.reached(version)
		}); err != nil {
			return err
		}
	}
	return nil
}

// knowsContour returns an error unless the relay shows each client as it is.
func (n relayNode) knowsContour(ctx context.Context, all []*contour) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/debug/streams?format=json", nil)
	if err != nil {
		return final{err}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var streams []struct {
		NodeID string `json:"node_id"`
		Types  []struct {
			State    string `json:"state"`
			LastNack *struct {
				Message string `json:"message"`
			} `json:"last_nack"`
		} `json:"types"`
	}
	if err := json.NewDecoder(response.Body).Decode(&streams); err != nil {
		return fmt.Errorf("/debug/streams: %w", err)
	}
	states := map[string]string{}
	for _, s := range streams {
		for _, typ := range s.Types {
			states[s.NodeID] = typ.State
			if typ.LastNack != nil {
				states[s.NodeID] += ": " + typ.LastNack.Message
			}
		}
	}
	for _, c := range all {
		want := "SYNCED"
		if c.nack {
			want = "NACKED: Told to create a NACK for testing"
		}
		if states[c.name] != want {
			return fmt.Errorf("%s is shown as %q, want %q", c.name, states[c.name], want)
		}
	}
	return nil
}
