package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"xdsrelay/relay/ops"
)

// RolloutConfig says how a demo of staged rollouts runs. It is not changed after [RunRollout] was called.
type RolloutConfig struct {
	// Clients is how many clients there are. At least 1.
	Clients int
	// Bake is how long the canaries of a step keep a version before the next step, and all clients before
	// it is good. At least a second; default [DefaultBake].
	Bake time.Duration
	// Listen and Admin are the addresses of the relay's ports. Default: free ports on loopback.
	Listen, Admin string
	// Version is the program's.
	Version string
	// Out is where the demo writes what happens. Required.
	Out io.Writer
	// Stays says that the relay and its page stay after the story, until the context ends.
	Stays bool
}

// DefaultBake is the bake where nothing else is said.
const DefaultBake = 4 * time.Second

// rolloutKey is the key of all clients.
const rolloutKey = "shop"

// staged is a running demo of rollouts. It belongs to the goroutine of RunRollout.
type staged struct {
	cfg   RolloutConfig
	files *directory
	edits *editor
	store string // of last known good
	node  *node
	fleet *fleet
	seen  map[decision]bool // that have a line
	// exposed is how many clients the bad version was to reach, as the relay reports.
	exposed int
}

// decision identifies one of the relay's.
type decision struct {
	at          time.Time
	what, state string
}

// RunRollout runs a relay with a rollout policy. A good version goes to a few clients, more of them, and all; a
// bad one is rejected by the first, and taken back. It returns an error if a client that was not among these
// got the bad version, or if one does not have the last version in the end.
func RunRollout(ctx context.Context, cfg RolloutConfig) (err error) {
	if cfg.Bake == 0 {
		cfg.Bake = DefaultBake
	}
	if cfg.Out == nil || cfg.Clients < 1 || cfg.Bake < time.Second {
		return fmt.Errorf("demo: %d clients and a bake of %v: expected an output, at least one client, and at least a second", cfg.Clients, cfg.Bake)
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1:0"
	}
	if cfg.Admin == "" {
		cfg.Admin = "127.0.0.1:0"
	}
	d := &staged{cfg: cfg, seen: make(map[decision]bool)}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(); err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{d.connect, d.good, d.bad, d.fixed, d.verdict, d.stay} {
		if err := act(ctx); errors.Is(err, errInterrupted) {
			d.say("Interrupted.")
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// start starts the relay, and makes the clients.
func (d *staged) start() (err error) {
	root, err := copyExamples()
	if err != nil {
		return err
	}
	d.edits = newEditor(root)
	if d.files, err = openDirectory(root); err != nil {
		return err
	}
	if d.store, err = os.MkdirTemp("", "xdsrelay-demo-"); err != nil {
		return err
	}
	policy := fmt.Sprintf(`last_known_good: {store: directory, directory: %q}
aggregation:
  rules: [{name: demo, key: node.cluster, rollout: demo}]
rollout:
  budget: ["100%%"]
  policies:
    - name: demo
      steps: [{share: 10%%, bake: %v}, {share: 50%%, bake: %v}]
      final_bake: %v
`, d.store, d.cfg.Bake, d.cfg.Bake, d.cfg.Bake)
	if d.node, err = startNode(Config{Listen: d.cfg.Listen, Admin: d.cfg.Admin, Version: d.cfg.Version}, d.files.root, []byte(policy)); err != nil {
		return err
	}
	var clients []*client
	for _, c := range newClients(Config{Clients: d.cfg.Clients * len(d.files.keys()), Slow: d.cfg.Bake / 16}, d.files) {
		if c.key == rolloutKey && len(clients) < d.cfg.Clients {
			clients = append(clients, c)
		}
	}
	d.fleet = newFleet(clients, []string{rolloutKey})
	return nil
}

// stop ends everything.
func (d *staged) stop() (err error) {
	if d.fleet != nil {
		d.fleet.stop()
	}
	if d.node != nil {
		err = d.node.stop()
	}
	if d.edits != nil {
		err = errors.Join(err, os.RemoveAll(d.edits.root))
	}
	if d.store != "" {
		err = errors.Join(err, os.RemoveAll(d.store))
	}
	return err
}

func (d *staged) say(format string, args ...any) {
	fmt.Fprintf(d.cfg.Out, format+"\n", args...)
}

// await waits until something is true.
func (d *staged) await(ctx context.Context, what string, done func() bool) error {
	limit := 2*patience + 4*d.cfg.Bake
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		d.files.read()
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return errInterrupted
		case err := <-d.node.ended:
			d.node.failed = err
			return fmt.Errorf("demo: the relay ended: %w", err)
		case <-deadline.C:
			return fmt.Errorf("demo: waited %s for %s, in vain; the state is %+v", limit, what, d.status().State)
		case <-ticker.C:
		}
	}
}

// status is how far the rollout is, as the relay says; empty if it does not answer.
func (d *staged) status() (is ops.RolloutProgress) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+d.node.admin+"/api/v1/rollout?"+url.Values{ops.ParamKey: {rolloutKey}}.Encode(), nil)
	if err != nil {
		return is
	}
	response, err := d.node.client.Do(request)
	if err != nil {
		return is
	}
	defer response.Body.Close()
	var all ops.Rollout
	if json.NewDecoder(response.Body).Decode(&all) != nil || len(all.Keys) != 1 || all.Keys[0].Rollout == nil {
		return is
	}
	return *all.Keys[0].Rollout
}
