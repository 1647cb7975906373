package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// The versions differ in the timeout of one cluster, which all clients have.
const (
	rolloutFile = "cds.yaml"
	goodTimeout = "0.750s"
	badTimeout  = "-1s" // which clients reject
	lastTimeout = "1s"
)

var (
	rolloutCluster = ref{clusterType, "greeter"}
	timeoutForm    = regexp.MustCompile(`(?s)(name: greeter\b.*?connect_timeout: )(\S+)`)
)

// connect lets all clients connect.
func (d *staged) connect(ctx context.Context) error {
	d.say("A relay with a rollout policy, between a directory of resources and %d clients, all on this machine.\n", len(d.fleet.clients))
	d.say("  directory  %s", d.files.root)
	d.say("  relay      %s", d.node.addr)
	d.say("  live page  http://%s/#/rollouts", d.node.admin)
	d.say("  policy     scouts; 10%% of the clients for %v; 50%% for %v; all, and a final bake of %v\n", d.cfg.Bake, d.cfg.Bake, d.cfg.Bake)
	began := time.Now()
	for _, c := range d.fleet.clients {
		if err := c.start(d.fleet.life, []string{d.node.addr}); err != nil {
			return err
		}
	}
	if err := d.await(ctx, "all clients to have all resources", func() bool { return len(d.fleet.verify(d.files)) == 0 && d.status().State == "Idle" }); err != nil {
		return err
	}
	d.say("The clients connect. All %d of them have their configuration after %s.\n", len(d.fleet.clients), brief(time.Since(began)))
	return nil
}

// write makes the control plane send another version.
func (d *staged) write(timeout string) (at time.Time, err error) {
	path := filepath.Join(d.files.root, rolloutFile)
	b, err := os.ReadFile(path)
	if err != nil {
		return at, err
	}
	return replaceFile(path, timeoutForm.ReplaceAll(b, []byte("${1}"+timeout)))
}

// good is a version that clients accept.
func (d *staged) good(ctx context.Context) error {
	d.say("A good version: the cluster greeter gets a timeout of %s.", goodTimeout)
	return d.releases(ctx, goodTimeout)
}

// fixed is the version that replaces the bad one.
func (d *staged) fixed(ctx context.Context) error {
	d.say("The version is put right: a timeout of %s. No order is needed.", lastTimeout)
	return d.releases(ctx, lastTimeout)
}

// releases shows how a version goes to all clients.
func (d *staged) releases(ctx context.Context, timeout string) error {
	at, err := d.write(timeout)
	if err != nil {
		return err
	}
	ended := false
	if err := d.await(ctx, "the version to be good", func() bool {
		ended = d.reports(at) || ended
		return ended && len(d.fleet.verify(d.files)) == 0
	}); err != nil {
		return err
	}
	d.say("")
	return nil
}

// bad is a version that clients reject.
func (d *staged) bad(ctx context.Context) error {
	before := d.files.content(rolloutKey)[rolloutCluster]
	d.say("A bad version: a timeout of %s, which clients reject.", badTimeout)
	at, err := d.write(badTimeout)
	if err != nil {
		return err
	}
	all := len(d.fleet.clients)
	ended := false
	if err := d.await(ctx, "the bad version to be taken back", func() bool {
		ended = d.reports(at) || ended
		return ended && d.holding(before) == all
	}); err != nil {
		return err
	}
	d.exposed = d.status().Exposed
	d.say("  %-7s all %d clients have the good version; at most %d got the bad one, and all others never do\n", since(at), all, d.exposed)
	// For those who look at the page.
	wait, end := context.WithTimeout(ctx, d.cfg.Bake)
	defer end()
	if err := d.await(wait, "a look at the page", func() bool { return false }); ctx.Err() != nil || !errors.Is(err, errInterrupted) {
		return err
	}
	return nil
}

// reports writes a line for each decision of the relay that has none yet, and reports whether the rollout
// has ended.
func (d *staged) reports(wrote time.Time) (ended bool) {
	for _, one := range d.status().History {
		is := decision{one.At, one.What, one.State}
		if d.seen[is] || one.At.Before(wrote) {
			continue
		}
		d.seen[is] = true
		if text := inWords(&one); text != "" {
			d.say("  %-7s %s", "+"+brief(one.At.Sub(wrote)), text)
		}
		ended = ended || one.State == "Idle" || one.What == "failed"
	}
	return ended
}

// inWords is a decision in words; empty for one that the next one says better.
func inWords(d *ops.RolloutDecision) string {
	have := fmt.Sprintf("%d of %d clients have it", d.Canaries, d.Affected)
	switch {
	case d.What == "started":
		return "revision " + d.Revision
	case d.What == "step" && strings.HasPrefix(d.State, "Scouting"):
		return "scouts: " + have + ", one of each kind"
	case d.What == "step":
		return "step:   " + have
	case d.What == "promoted":
		return "all:    the others get it, and the final bake begins"
	case d.What == "passed" && d.State == "Idle":
		return "good:   it is last known good"
	case d.What == "failed":
		text := "held:   the scouts get the good version back, and no further client gets this one"
		for _, r := range d.Rejections {
			return text + fmt.Sprintf("\n          rejected by %s: %s %s: %s", r.Client, ops.ShortName(r.Type), strings.Join(r.Resources, ", "), r.Reason)
		}
		return text
	}
	return ""
}

func since(at time.Time) string { return "+" + brief(time.Since(at)) }

// holding counts the clients that have a version of the cluster.
func (d *staged) holding(version *facts) (n int) {
	for _, c := range d.fleet.clients {
		if h, has := c.holds()[rolloutCluster]; has && h.sum == version.sum && !c.rejects(rolloutCluster) {
			n++
		}
	}
	return n
}

// rejected counts the clients that have ever rejected something.
func (d *staged) rejected() (n int) {
	for _, c := range d.fleet.clients {
		if c.hasRejected() {
			n++
		}
	}
	return n
}

// verdict compares what the clients hold with the files, read here and not through the relay.
func (d *staged) verdict(context.Context) error {
	if lacks := d.fleet.verify(d.files); len(lacks) > 0 {
		for _, l := range listLacks(lacks) {
			d.say("  %s", l)
		}
		return fmt.Errorf("demo: %d of %d clients do not have the last version", countClients(lacks), len(d.fleet.clients))
	}
	reached := d.rejected()
	if reached > d.exposed {
		return fmt.Errorf("demo: %d clients got the bad version, and the relay reports %d", reached, d.exposed)
	}
	d.say("All %d clients have the last version, byte by byte. The bad one reached %d of them.", len(d.fleet.clients), reached)
	return nil
}

// stay keeps the page.
func (d *staged) stay(ctx context.Context) error {
	if !d.cfg.Stays {
		return nil
	}
	d.say("The live page stays until you press Ctrl-C: http://%s/#/rollouts", d.node.admin)
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.node.ended:
		d.node.failed = err
		return fmt.Errorf("demo: the relay ended: %w", err)
	}
}
