package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"xdsrelay/bench/content"
)

// Until is how far clients have to get.
type Until string

// What [Fleet.Connect] can wait for.
const (
	// Synced clients hold all that they ask for.
	Synced Until = "synced"
	// Connected clients have their streams.
	Connected Until = "connected"
	// Started clients try to connect.
	Started Until = "started"
)

// Reached says how far clients have got.
type Reached struct {
	// Done says that all have got as far as they should.
	Done bool `json:"done"`
	// Elapsed is how long that took, or how long it was waited for; in JSON in
	// nanoseconds.
	Elapsed time.Duration `json:"elapsed"`
	// Clients is how many were told to connect, Connected how many have their
	// streams and Synced how many hold all that they have to.
	Clients   int   `json:"clients"`
	Connected int64 `json:"connected"`
	Synced    int64 `json:"synced"`
	// Waiting describes one of those that have not got as far.
	Waiting string `json:"waiting,omitempty"`
}

// poll is how often it is looked who has got how far.
const poll = 2 * time.Millisecond

// reach waits until all clients fulfil a condition, or until ctx ends.
func (f *Fleet) reach(ctx context.Context, clients []*client, done func(*client) bool) Reached {
	begun := time.Now()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	at := 0
	for {
		for at < len(clients) && done(clients[at]) {
			at++
		}
		if at == len(clients) {
			// Those that were done at first may have fallen back.
			for at = 0; at < len(clients) && done(clients[at]); at++ {
				continue
			}
		}
		r := Reached{
			Done: at == len(clients), Elapsed: time.Since(begun), Clients: len(clients),
			Connected: f.connected.Load(), Synced: f.synced.Load(),
		}
		if r.Done {
			return r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.Waiting = clients[at].describe()
			return r
		}
	}
}

// describe says how far a client has got.
func (c *client) describe() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s)", c, c.role)
	if !c.open.Load() {
		text.WriteString(" has no stream")
	}
	for k := range kinds {
		if c.link.fleet.types.has(k) {
			st := c.subs[k].state.Load()
			fmt.Fprintf(&text, ", %s: %d resources up to revision %d", k.info().name, st.has.len(), st.newest)
		}
	}
	return text.String()
}

// Connect lets n more clients connect, all that are left where n is 0, and waits
// until all that were ever told to have got as far as until says, or until ctx
// ends, which is no error.
func (f *Fleet) Connect(ctx context.Context, n int, until Until) (Reached, error) {
	var done func(*client) bool
	switch until {
	case Synced, "":
		done = func(c *client) bool { return c.synced.Load() }
	case Connected:
		done = func(c *client) bool { return c.open.Load() }
	case Started:
		done = func(*client) bool { return true }
	default:
		return Reached{}, fmt.Errorf("connect: until %q, expected %s, %s or %s", until, Synced, Connected, Started)
	}
	f.start(n)
	return f.reach(ctx, f.running(), done), nil
}

// Settle ends the churn for good and waits until each client that was told to
// connect has its streams and holds all that it asked for, or until ctx ends,
// which is no error. A storm that was broken off is waited for as well. A client
// counts once it was seen so: if the server lets clients reconnect one after the
// other, there may be no moment at which all of them have their streams.
func (f *Fleet) Settle(ctx context.Context) Reached {
	f.rest()
	<-f.rested
	well := make(map[*client]bool)
	return f.reach(ctx, f.running(), func(c *client) bool {
		// In this order: a kick is taken back after the streams are lost, and
		// before what the client held is forgotten and new streams are opened.
		if !well[c] && c.link.kicked.Load() == kickNone && c.open.Load() && c.synced.Load() {
			well[c] = true
		}
		return well[c]
	})
}

// Await waits until clients hold a revision, or until ctx ends, which is no
// error. A change says what the revision has changed; without one, any resource
// of the revision, or of a later one, will do. Clients that are stuck or reject
// everything are not waited for.
func (f *Fleet) Await(ctx context.Context, revision uint64, change *content.Change) (Reached, error) {
	need := 1
	types := f.types
	if change != nil {
		k, err := kindsOf(change.At(revision), f.types)
		if err != nil {
			return Reached{}, fmt.Errorf("await: %w", err)
		}
		types = k
		switch change.Kind {
		case content.Burst:
			need = change.Resources
		case content.Full:
			need = -1
		}
	}
	// Each key has a last revision of its own, where changes are of one key.
	ws := make([]awaited, len(f.views))
	for key := range ws {
		ws[key] = awaited{revision: revision, need: need}
		for change != nil && ws[key].revision > 0 && !change.Concerns(ws[key].revision, key, len(ws)) {
			ws[key].revision--
		}
	}
	var clients []*client
	for _, c := range f.running() {
		if c.role != stuck && c.role != rejecting {
			clients = append(clients, c)
		}
	}
	return f.reach(ctx, clients, func(c *client) bool {
		if !c.synced.Load() {
			return false
		}
		some, w := false, &ws[c.view.key]
		for k := range kinds {
			if !types.has(k) {
				continue
			}
			if w.in(k, c.subs[k].state.Load()) {
				some = true
			} else if change != nil {
				return false
			}
		}
		return some
	}), nil
}

// awaited is a revision that is waited for.
type awaited struct {
	revision uint64
	need     int // how many resources of a type have to have it; -1 for all
	// last is the last state that had it: most clients have the same.
	last [kinds]*state
}

func (w *awaited) in(k kind, s *state) bool {
	if s == w.last[k] {
		return true
	}
	if w.revision > 0 && s.newest < w.revision {
		return false
	}
	need := w.need
	if need < 0 {
		need = s.has.len()
	}
	if need > 1 && s.atLeast(w.revision) < need {
		return false
	}
	w.last[k] = s
	return true
}
