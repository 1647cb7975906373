package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/control"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/report"
)

// bed is all processes of a run. It is used by one goroutine, but for use.
type bed struct {
	// Fixed after construction.
	setup  report.Setup
	target Target
	p      Programs
	// server makes the changes: the origin or the floor. It is the target itself
	// where there are no nodes.
	server    *control.Child
	serverLog *logCount
	nodes     []*node
	addrs     []string     // where clients connect
	certs     *certs.Files // nil for plaintext
	tier      *tier        // nil unless the nodes are one

	fleet *fleetChild // nil until the clients are started
}

// newBed starts everything but the clients. Files are put into dir.
func newBed(ctx context.Context, p Programs, t Target, setup report.Setup, dir string) (*bed, error) {
	b := &bed{setup: setup, target: t, p: p, serverLog: &logCount{}}
	if setup.Tier && t.kind != kindRelay {
		return nil, fmt.Errorf("target %s: as a tier, expected relay", t)
	}
	if setup.TLS != "" {
		if t.kind != kindRelay && t.kind != kindFloor {
			return nil, fmt.Errorf("target %s: with TLS, expected relay or floor", t)
		}
		files, err := certs.Write(dir)
		if err != nil {
			return nil, err
		}
		b.certs = &files
	}
	cmd := p.Child(ctx, serverArgs(t, setup, b.certs)...)
	cmd.Stderr = b.serverLog
	var err error
	if b.server, err = control.Start(ctx, cmd); err != nil {
		return nil, b.explain(err)
	}
	if err := b.startNodes(ctx, dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) startNodes(ctx context.Context, dir string) error {
	var ready drive.Ready
	if err := b.server.Ready(&ready); err != nil {
		return err
	}
	if b.target.ownOrigin() {
		b.addrs = []string{ready.Addr}
		return nil
	}
	if b.setup.Tier {
		var err error
		if b.tier, err = startTier(ctx, b.setup.Nodes, dir); err != nil {
			return err
		}
	}
	nodes, err := newNodes(ctx, b, ready.Addr, dir)
	if err != nil {
		return err
	}
	b.nodes = nodes
	for _, n := range nodes {
		if err := n.start(ctx); err != nil {
			return err
		}
		b.addrs = append(b.addrs, n.addr)
	}
	return nil
}

// close ends all processes. How those of ours end does not matter any more: one
// with gigabytes to clear up may have to be killed. A target that does not end
// is an error.
func (b *bed) close() error {
	if b.fleet != nil {
		b.fleet.close()
	}
	err := stopAll(b.nodes)
	if b.tier != nil {
		err = errors.Join(err, b.tier.close())
	}
	_ = b.server.Close()
	return err
}

// explain adds what the server logged last to an error.
func (b *bed) explain(err error) error {
	if log := b.serverLog.last(); err != nil && log != "" {
		return fmt.Errorf("%w; the log of %s ends with:\n%s", err, b.serverName(), log)
	}
	return err
}

func (b *bed) serverName() string {
	if b.target.ownOrigin() {
		return b.target.kind
	}
	return kindOrigin
}

// use is what the target used. It may be called from any goroutine.
func (b *bed) use() (report.Use, error) {
	if len(b.nodes) == 0 {
		return useOf(b.server.Pid())
	}
	var sum report.Use
	for _, n := range b.nodes {
		use, err := n.use()
		if err != nil {
			return sum, err
		}
		sum = plus(sum, use)
	}
	return sum, nil
}

// log is what the target logged.
func (b *bed) log() (lines, bytes int) {
	if len(b.nodes) == 0 {
		return b.serverLog.counts()
	}
	for _, n := range b.nodes {
		l, c := n.log.counts()
		lines, bytes = lines+l, bytes+c
	}
	return lines, bytes
}

// dead is an error if a process has ended that should not.
func (b *bed) dead() error {
	for _, n := range b.nodes {
		if err := n.dead(); err != nil {
			return err
		}
	}
	select {
	case <-b.server.Ended():
		return b.explain(fmt.Errorf("%s: it ended", b.serverName()))
	default:
		return nil
	}
}

// stats is what the server was asked and answered.
func (b *bed) stats(ctx context.Context) (drive.Stats, error) {
	var s drive.Stats
	err := b.server.Call(ctx, drive.OrderStats, nil, &s)
	return s, err
}

// tempDir makes a folder for a run, and returns what removes it.
func tempDir() (string, func(), error) {
	dir, err := os.MkdirTemp("", "xdsbench-")
	if err != nil {
		return "", nil, fmt.Errorf("files of a run: %w", err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }, nil
}
