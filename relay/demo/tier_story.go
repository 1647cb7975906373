package demo

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// inStep reports whether all clients hold what the files have.
func (d *tier) inStep() bool { return len(d.fleet.verify(d.files)) == 0 }

// connect lets all clients connect, spread over the relays as a load balancer would.
func (d *tier) connect(ctx context.Context) error {
	began := time.Now()
	for i, c := range d.fleet.clients {
		if err := c.start(d.fleet.life, d.addresses(i)); err != nil {
			return err
		}
	}
	if err := d.await(ctx, "all clients to have all resources", d.inStep); err != nil {
		return err
	}
	d.say("The clients connect. All %d of them have their configuration after %s.", len(d.fleet.clients), brief(time.Since(began)))
	if err := d.awaitStreams(ctx); err != nil {
		return err
	}
	d.say("  The control plane sees %d streams, one for each key (%s), instead of %d.\n", len(d.fleet.keys), strings.Join(d.fleet.keys, ", "), len(d.fleet.clients))
	return nil
}

// addresses are those of all relays, beginning with another one for each client.
func (d *tier) addresses(i int) (all []string) {
	for k := range d.nodes {
		all = append(all, d.nodes[(i+k)%len(d.nodes)].addr)
	}
	return all
}

// awaitStreams waits until the control plane has one stream for each key.
func (d *tier) awaitStreams(ctx context.Context) error {
	return d.await(ctx, fmt.Sprintf("%d streams at the control plane", len(d.fleet.keys)), func() bool {
		n, err := d.control.streams()
		return err == nil && n == len(d.fleet.keys)
	})
}

// edit changes endpoints that clients of all keys use.
func (d *tier) edit() (at time.Time, err error) {
	d.edits.turn = 0
	_, at, err = d.edits.next()
	return at, err
}

// change changes a resource and waits until all have it.
func (d *tier) change(ctx context.Context) error {
	at, err := d.edit()
	if err != nil {
		return err
	}
	if err := d.await(ctx, "a change to arrive", d.inStep); err != nil {
		return err
	}
	d.say("An endpoint changes in the control plane. All clients that use it have the change after %s.\n", brief(time.Since(at)))
	return nil
}

// killOwner kills the relay that owns a key.
func (d *tier) killOwner(ctx context.Context) error {
	key := d.fleet.keys[0]
	var victim *relayProcess
	if err := d.await(ctx, "an owner of key "+key, func() bool {
		victim = d.named(d.nodes[0].owner(key))
		return victim != nil
	}); err != nil {
		return err
	}
	var its, others []*client
	for _, c := range d.fleet.clients {
		if c.connectedTo() == victim.addr {
			its = append(its, c)
		} else {
			others = append(others, c)
		}
	}
	before := responses(others)
	d.say("Relay %s owns the key %s: it has the stream to the control plane. The demo kills it, as kill -9 does.", victim.name, key)
	began := time.Now()
	victim.kill()
	d.nodes = without(d.nodes, victim)
	if err := d.await(ctx, "clients to connect to other relays", func() bool {
		for _, c := range its {
			if _, trouble := c.openStreams(); c.connectedTo() == victim.addr || trouble != nil {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	d.say("  Its %d clients are connected to other relays after %s. They kept their configuration throughout.", len(its), brief(time.Since(began)))
	owner := ""
	if err := d.await(ctx, "another owner of key "+key, func() bool {
		owner = d.nodes[0].owner(key)
		return d.named(owner) != nil
	}); err != nil {
		return err
	}
	if err := d.awaitStreams(ctx); err != nil {
		return err
	}
	d.say("  Relay %s owns the key now, and the control plane sees %d streams again, after %s.", owner, len(d.fleet.keys), brief(time.Since(began)))
	d.say("  The other %d clients got %s.\n", len(others), messages(responses(others)-before))
	return nil
}

func (d *tier) named(name string) *relayProcess {
	for _, n := range d.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// responses is how many messages clients have been sent.
func responses(clients []*client) (n int) {
	for _, c := range clients {
		n += c.responses()
	}
	return n
}

func messages(n int) string {
	if n == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d messages", n)
}

// cutControlPlane cuts all connections to the control plane. Then a client starts, and a
// resource changes.
func (d *tier) cutControlPlane(ctx context.Context) error {
	clients := d.fleet.clients
	before := responses(clients)
	d.control.cut()
	d.say("The control plane becomes unreachable.")
	if err := d.await(ctx, "the control plane to have no streams", func() bool {
		n, err := d.control.streams()
		return err == nil && n == 0
	}); err != nil {
		return err
	}
	began := time.Now()
	d.fleet.clients = append(d.fleet.clients[:len(clients):len(clients)], d.spare)
	if err := d.spare.start(d.fleet.life, d.addresses(0)); err != nil {
		return err
	}
	if err := d.await(ctx, "a new client to have all resources", d.inStep); err != nil {
		return err
	}
	d.say("  A client that connects now has its configuration after %s.", brief(time.Since(began)))
	if _, err := d.edit(); err != nil {
		return err
	}
	d.say("  An endpoint changes in the control plane. No client can have the change yet: the %d clients got %s.\n", len(clients), messages(responses(clients)-before))
	return nil
}

// restoreControlPlane lets the relays connect to the control plane again.
func (d *tier) restoreControlPlane(ctx context.Context) error {
	began := time.Now()
	d.control.restore()
	if err := d.await(ctx, "a change to arrive", d.inStep); err != nil {
		return err
	}
	d.say("The control plane is reachable again. All clients have the change after %s.\n", brief(time.Since(began)))
	return nil
}
