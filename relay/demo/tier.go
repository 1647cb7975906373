package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// TierConfig says how a demo of a tier runs. It is not changed after [RunTier] was called.
type TierConfig struct {
	// Nodes is how many relays there are, from 2 to [MostNodes].
	Nodes int
	// Clients is how many clients there are. At least 1.
	Clients int
	// Version is the program's.
	Version string
	// Out is where the demo tells its story. Required.
	Out io.Writer
	// Command makes a process of this program with these arguments. Required.
	Command func(args ...string) *exec.Cmd
	// Redis is the redis-server by which the relays find one another. Empty means that
	// they know one another from a list.
	Redis string
}

// MostNodes bounds the relays of a demo: their names are letters.
const MostNodes = 9

// tier is a running demo of a tier. It belongs to the goroutine of RunTier.
type tier struct {
	cfg     TierConfig
	dir     string // temporary: sockets, configurations
	files   *directory
	edits   *editor
	control *controlPlane
	redis   *process // nil without
	nodes   []*relayProcess
	fleet   *fleet
	spare   *client // that starts while the control plane is away
	lost    int     // resources that clients lost; none is ever removed
}

// errInterrupted ends a demo early, which is no failure.
var errInterrupted = errors.New("interrupted")

// RunTier runs relays as processes of their own, kills the one that owns a key, cuts off
// the control plane, and says in plain words what clients notice. It returns an error if
// a client lost anything, or does not have the last state in the end.
func RunTier(ctx context.Context, cfg TierConfig) (err error) {
	if cfg.Out == nil || cfg.Command == nil || cfg.Nodes < 2 || cfg.Nodes > MostNodes || cfg.Clients < 1 {
		return fmt.Errorf("demo: %d relays and %d clients: expected 2 to %d relays, at least one client, an output and a command", cfg.Nodes, cfg.Clients, MostNodes)
	}
	d := &tier{cfg: cfg}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx); err != nil {
		return err
	}
	d.introduce()
	for _, act := range []func(context.Context) error{d.connect, d.change, d.killOwner, d.change, d.cutControlPlane, d.restoreControlPlane} {
		if err := act(ctx); errors.Is(err, errInterrupted) {
			d.say("Interrupted.")
			return nil
		} else if err != nil {
			return err
		}
	}
	return d.verdict()
}

// start starts the control plane, Redis and the relays.
func (d *tier) start(ctx context.Context) (err error) {
	if d.dir, err = os.MkdirTemp("", "xdsrelay-demo-"); err != nil {
		return err
	}
	root, err := copyExamples()
	if err != nil {
		return err
	}
	d.edits = newEditor(root)
	if d.files, err = openDirectory(root); err != nil {
		return err
	}
	if d.control, err = startControlPlane(d.cfg.Version, root); err != nil {
		return err
	}
	clients := newClients(Config{Clients: d.cfg.Clients + 1}, d.files)
	d.fleet, d.spare = newFleet(clients[:d.cfg.Clients], d.files.keys()), clients[d.cfg.Clients]
	if d.cfg.Redis != "" {
		if err := d.startRedis(); err != nil {
			return err
		}
	}
	if err := d.startRelays(); err != nil {
		return err
	}
	return d.await(ctx, "the relays to find one another", func() bool {
		for _, n := range d.nodes {
			if n.members() != len(d.nodes) {
				return false
			}
		}
		return true
	})
}

// stop ends everything.
func (d *tier) stop() (err error) {
	if d.fleet != nil {
		d.fleet.stop()
	}
	for _, n := range d.nodes {
		n.kill()
	}
	if d.redis != nil {
		d.redis.kill()
	}
	if d.control != nil {
		err = d.control.stop()
	}
	if d.edits != nil {
		err = errors.Join(err, os.RemoveAll(d.edits.root))
	}
	if d.dir != "" {
		err = errors.Join(err, os.RemoveAll(d.dir))
	}
	return err
}

func nodeName(i int) string { return string(rune('a' + i)) }

// say writes a paragraph.
func (d *tier) say(format string, args ...any) {
	fmt.Fprintf(d.cfg.Out, format+"\n", args...)
}

func (d *tier) introduce() {
	d.say("A tier of %d relays between a control plane and %d clients, all on this machine.\n", len(d.nodes), len(d.fleet.clients))
	d.say("  control plane  %s, with the resources in %s", d.control.addr, d.files.root)
	if d.redis != nil {
		d.say("  Redis          %s, for discovery of the relays", d.cfg.Redis)
	} else {
		d.say("  no Redis       redis-server is not in PATH; the relays use a list of nodes")
	}
	for _, n := range d.nodes {
		d.say("  relay %s        %s, process %d; its live page is http://%s/", n.name, n.addr, n.pid(), n.admin)
	}
	d.say("")
}

// verdict compares what the clients hold with the files, read here and not through a relay.
func (d *tier) verdict() error {
	lacks := d.fleet.verify(d.files)
	if d.lost > 0 || len(lacks) > 0 {
		for _, l := range listLacks(lacks) {
			d.say("  %s", l)
		}
		return fmt.Errorf("demo: clients lost %d resources, and %d of %d do not have the last state", d.lost, countClients(lacks), len(d.fleet.clients))
	}
	d.say("All %d clients have the last state, byte by byte, and none of them lost a resource at any time.", len(d.fleet.clients))
	return nil
}

// await waits until something is true, and takes in what happens to the clients.
func (d *tier) await(ctx context.Context, what string, done func() bool) error {
	deadline := time.NewTimer(2 * patience)
	defer deadline.Stop()
	ticker := time.NewTicker(tick / 5)
	defer ticker.Stop()
	for {
		d.files.read()
		d.observe()
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return errInterrupted
		case err := <-d.control.ended:
			return fmt.Errorf("demo: the control plane ended: %w", err)
		case <-deadline.C:
			return fmt.Errorf("demo: waited %s for %s, in vain%s", 2*patience, what, d.troubles())
		case <-ticker.C:
		}
	}
}

// observe counts what clients lose.
func (d *tier) observe() {
	for _, c := range d.fleet.clients {
		for _, r := range c.collect() {
			if r.facts == nil {
				d.lost++
			}
		}
	}
}

// troubles is what may explain a failure: what clients lack, and the ends of the logs.
func (d *tier) troubles() string {
	var b strings.Builder
	for _, l := range listLacks(d.fleet.verify(d.files)) {
		b.WriteString("\n  " + l)
	}
	for _, n := range d.nodes {
		b.WriteString("\n  relay " + n.name + ": " + n.last())
	}
	return b.String()
}
