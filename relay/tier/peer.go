package tier

import (
	"context"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/lockorder"
	"xdsrelay/shard"
	"xdsrelay/upstream"
)

// peer is the connection to another node. While it is used, the other node sends heartbeats on it:
// with a node that hangs, or a network that drops packets, a connection stays open for a long time.
type peer struct {
	// Fixed after construction.
	owner  *Peers
	member shard.Member
	plane  *upstream.ControlPlane

	// Guarded by owner.mu: the last call but for heartbeats, and how many questions wait for their answer.
	called  time.Time
	waiting int

	mu lockorder.Mutex[lockorder.Peer]
	// Guarded by mu.
	users    int
	gone     bool          // the node is no longer a member
	watching *job          // see watch; nil while the connection is unused
	since    time.Time     // since when the node is unreachable or has not answered yet; zero if it answers
	changed  chan struct{} // closed when since changes
}

func newPeer(p *Peers, m shard.Member) (*peer, error) {
	plane, err := p.plane(m)
	if err != nil {
		return nil, err
	}
	return &peer{owner: p, member: m, plane: plane, since: time.Now(), changed: make(chan struct{})}, nil
}

// lost returns since when the node is unreachable, zero if it is reachable. changed is closed when
// that changes.
func (p *peer) lost() (since time.Time, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.changed
}

// join begins a use.
func (p *peer) join() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users > 1 || p.watching != nil {
		return
	}
	if !p.since.IsZero() {
		p.since = time.Now() // nothing was tried while it was unused
	}
	p.watching = startJob(context.Background(), p.watch)
}

// leave ends a use.
func (p *peer) leave() {
	if p.plane == nil {
		return
	}
	p.mu.Lock()
	p.users--
	unused, gone, watching := p.users == 0, p.gone, p.watching
	if unused {
		p.watching = nil
	}
	p.mu.Unlock()
	if unused {
		watching.stop()
	}
	if unused && gone {
		p.owner.drop(p)
	}
}

// setGone records whether the node is no longer a member, and reports whether the connection can be
// closed.
func (p *peer) setGone(gone bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = gone
	return gone && p.users == 0
}

func (p *peer) unused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.users == 0
}

// stop ends the watch of heartbeats.
func (p *peer) stop() {
	p.mu.Lock()
	watching := p.watching
	p.watching = nil
	p.mu.Unlock()
	watching.stop()
}

// follow keeps a feed up to date from the node until ctx ends.
func (p *peer) follow(ctx context.Context, f *cache.Feed, k *keeper) {
	if p.plane == nil {
		<-ctx.Done()
		return
	}
	p.plane.Follow(ctx, f, upstream.Following{Leg: k.leg, State: k.report})
}

// heard records whether a heartbeat was received that was due at a time.
func (p *peer) heard(err error, due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if (err == nil) == p.since.IsZero() {
		return
	}
	log := p.owner.cfg.Logger
	if p.since = due; err == nil {
		p.since = time.Time{}
		log.Info("peer connected", "node", p.member.Name, "address", p.member.Peer)
	} else {
		log.Warn("peer unreachable", "node", p.member.Name, "address", p.member.Peer, "error", err)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}
