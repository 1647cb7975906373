package fleet

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"xdsrelay/bench/content"
)

// Reaction is what clients do with clusters of a revision, or of a later one.
type Reaction struct {
	// From is the first revision that it is about. Required.
	From uint64 `json:"from"`
	// How is [Accept], [Reject] or [Leave].
	How string `json:"how"`
	// Within is how long clients stay connected that leave, at most; in JSON in nanoseconds.
	Within time.Duration `json:"within,omitempty"`
}

// The reactions.
const (
	Accept = "accept" // clients acknowledge the clusters
	Reject = "reject" // clients reject them, and name them as Envoy does
	Leave  = "leave"  // clients acknowledge them, disconnect soon, and reconnect without what they had, as after a crash
)

// away is how long clients that leave stay away.
const away = 500 * time.Millisecond

// Exposure is which clients have received what a [Reaction] is about.
type Exposure struct {
	Clients int `json:"clients"`
	// Again is how many of them received it on more than one connection.
	Again int `json:"again"`
	// Early is how many received it within the time of [ExposureArgs] after the first one.
	Early int `json:"early"`
	// First is when the first client received it, and Reacted when the first one rejected it or left;
	// zero for never.
	First   time.Time `json:"first,omitzero"`
	Reacted time.Time `json:"reacted,omitzero"`
}

// exposure records which clients receive what a reaction is about.
type exposure struct {
	Reaction // fixed

	mu      sync.Mutex
	seen    map[*client]*received // guarded by mu
	reacted time.Time             // guarded by mu
}

// received is when a client has received something, and on which connections.
type received struct {
	at    time.Time
	on    any // the last connection
	times int // the number of connections
}

// React makes clients react to revisions, in the place of the reaction before.
func (f *Fleet) React(r Reaction) error {
	if r.From == 0 || r.How != Accept && r.How != Reject && r.How != Leave {
		return fmt.Errorf("reaction %q from revision %d, expected a revision and %s, %s or %s", r.How, r.From, Accept, Reject, Leave)
	}
	f.exposure.Store(&exposure{Reaction: r, seen: make(map[*client]*received)})
	return nil
}

// Exposure returns which clients have received what the reaction is about.
func (f *Fleet) Exposure(early time.Duration) (out Exposure) {
	e := f.exposure.Load()
	if e == nil {
		return out
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out.Clients, out.Reacted = len(e.seen), e.reacted
	for _, r := range e.seen {
		if out.First.IsZero() || r.at.Before(out.First) {
			out.First = r.at
		}
		if r.times > 1 {
			out.Again++
		}
	}
	for _, r := range e.seen {
		if r.at.Before(out.First.Add(early)) {
			out.Early++
		}
	}
	return out
}

// mayReturn reports whether clients may be sent older content than that of a revision: a rollout takes
// back what some of them had.
func (f *Fleet) mayReturn(revision uint64) bool {
	e := f.exposure.Load()
	return e != nil && revision >= e.From
}

// react records that the client received a body, and returns why it rejects it, if it does.
func (c *client) react(b *body) string {
	e := c.link.fleet.exposure.Load()
	if e == nil || b.kind != cds || b.newest < e.From {
		return ""
	}
	e.note(c)
	switch e.How {
	case Reject:
		e.noteReaction()
		return c.view.rejection(b, e.From)
	case Leave:
		l := c.link
		time.AfterFunc(rand.N(max(e.Within, 1)), func() {
			e.noteReaction()
			l.away.Store(int64(away))
			l.kick(kickCold)
		})
	}
	return ""
}

func (e *exposure) note(c *client) {
	on := any(c.link.conn.Load())
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.seen[c]
	if r == nil {
		r = &received{at: time.Now()}
		e.seen[c] = r
	}
	if r.on != on {
		r.on = on
		r.times++
	}
}

func (e *exposure) noteReaction() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reacted.IsZero() {
		e.reacted = time.Now()
	}
}

// RejectionText is what clients say about a cluster that they reject.
const RejectionText = "rejected by the benchmark"

// rejection is the message of a client that rejects the clusters of a revision: one line for each.
func (v *view) rejection(b *body, from uint64) string {
	var lines []string
	for _, i := range b.items {
		if i.revision >= from {
			lines = append(lines, content.Name(content.ClusterURL, v.fleet.cfg.Content.Source(v.key), i.number)+": "+RejectionText)
		}
	}
	return strings.Join(lines, "\n")
}
