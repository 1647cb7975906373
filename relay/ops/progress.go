package ops

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
)

// Progress is how far an update of a type of a key has come with those clients of a
// node that are to be told of it and were there when it came.
type Progress struct {
	Key  string `json:"key"`
	URL  string `json:"type_url"`
	Name string `json:"type"`
	Node string `json:"node"`
	// At is when the node stored it, Age how long ago that was, in seconds: the clocks
	// of nodes may differ, ages do not.
	At  time.Time `json:"at"`
	Age float64   `json:"age_seconds"`
	// The rest says what it was; see [cache.Past].
	Generation uint64      `json:"generation"`
	Cause      cache.Cause `json:"cause,omitempty"`
	Version    string      `json:"version,omitempty"`
	Added      int         `json:"added"`
	Changed    int         `json:"changed"`
	Removed    int         `json:"removed"`

	Reached
	// Took are times from At to the ACKs in seconds, in order: of so many clients, at
	// most mostTook, evenly chosen.
	Took []float64 `json:"took,omitempty"`
}

// Reached is how many clients an update has come to.
type Reached struct {
	// Clients are all of them; Acked have it, Nacked rejected it, Sent have not answered,
	// and Waiting have not been told.
	Clients int `json:"clients"`
	Acked   int `json:"acked"`
	Nacked  int `json:"nacked"`
	Sent    int `json:"sent"`
	Waiting int `json:"waiting"`
}

func (r *Reached) add(o Reached) {
	r.Clients += o.Clients
	r.Acked += o.Acked
	r.Nacked += o.Nacked
	r.Sent += o.Sent
	r.Waiting += o.Waiting
}

// Bounds of a board: how many updates it holds, how often it looks, and how many times
// it tells of each update.
const (
	boardSize = 40
	lookPause = time.Second
	mostTook  = 101
)

// Board remembers how far the newest updates of a node have come. It finds out by the
// positions of clients when it is asked, and at most once in a second, so it costs
// nothing while nobody asks, and nothing is kept per client. An update that was followed
// by another of its type before it was looked at is not seen. All methods are safe for
// concurrent use.
type Board struct {
	local Local // fixed

	mu sync.Mutex
	// Guarded by mu.
	at  time.Time  // of the last look
	all []Progress // the newest first
}

// NewBoard makes the board of a node.
func NewBoard(local Local) *Board { return &Board{local: local} }

// chased is an update that is still looked at.
type chased struct {
	table  *cache.Table
	update cache.UpdateRef
	seen   *Progress
	took   []float64
}

// Look returns how far the newest updates have come, the newest first.
func (b *Board) Look() []Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if now.Sub(b.at) >= lookPause {
		b.at = now
		b.lookLocked()
	}
	out := slices.Clone(b.all)
	for i := range out {
		out[i].Age = max(0, now.Sub(out[i].At).Seconds())
	}
	return out
}

func (b *Board) lookLocked() {
	var found []*chased
	for _, g := range b.local.Groups() {
		for _, t := range g.Tables() {
			if u, ok := t.Latest(); ok {
				found = append(found, &chased{table: t, update: u, seen: &Progress{Key: string(g.Key), URL: t.Type.URL}})
			}
		}
	}
	slices.SortFunc(found, func(x, y *chased) int { return y.update.At.Compare(x.update.At) })
	found = found[:min(len(found), boardSize)]
	// What was followed by another before all had answered is not looked at any more: how
	// it stood would be said for ever.
	b.all = slices.DeleteFunc(b.all, func(p Progress) bool {
		return p.Sent+p.Waiting > 0 && slices.ContainsFunc(found, func(c *chased) bool {
			return c.seen.Key == p.Key && c.seen.URL == p.URL && c.update.Gen != p.Generation
		})
	})
	byKey := make(map[string][]*chased)
	for _, c := range found {
		i := slices.IndexFunc(b.all, func(p Progress) bool {
			return p.Generation == c.update.Gen && p.Key == c.seen.Key && p.URL == c.seen.URL && p.At.Equal(c.update.At)
		})
		if i >= 0 && b.all[i].Clients > 0 && b.all[i].Acked == b.all[i].Clients {
			continue // it is everywhere, and stays so
		}
		c.describe(b.local.Node)
		if i >= 0 {
			b.all = slices.Delete(b.all, i, i+1)
		}
		byKey[c.seen.Key] = append(byKey[c.seen.Key], c)
	}
	if len(byKey) > 0 {
		for _, client := range b.local.Clients() {
			for _, c := range byKey[client.Key()] {
				c.ask(client)
			}
		}
	}
	for _, all := range byKey {
		for _, c := range all {
			slices.Sort(c.took)
			c.seen.Took = evenly(c.took, mostTook)
			b.all = append(b.all, *c.seen)
		}
	}
	slices.SortFunc(b.all, func(x, y Progress) int {
		return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.Key, y.Key), cmp.Compare(x.URL, y.URL))
	})
	b.all = b.all[:min(len(b.all), boardSize)]
}

// describe says what the update was.
func (c *chased) describe(node string) {
	p := c.seen
	p.Name, p.Node, p.At, p.Generation = ShortName(p.URL), node, c.update.At, c.update.Gen
	for _, past := range c.table.History() {
		if past.Generation == c.update.Gen {
			p.Cause, p.Version = past.Cause, redact.Text(past.Version)
			p.Added, p.Changed, p.Removed = past.Added, past.Changed, past.Removed
			break
		}
	}
}

// ask looks at one client.
func (c *chased) ask(client fanout.Client) {
	state, at, ok := client.Reach(c.table, c.update)
	if !ok {
		return
	}
	p := c.seen
	p.Clients++
	switch state {
	case Synced:
		p.Acked++
		if took := at.Sub(c.update.At); took > 0 {
			c.took = append(c.took, took.Seconds())
		}
	case Nacked:
		p.Nacked++
	case Stale:
		p.Sent++
	default:
		p.Waiting++
	}
}

// evenly chooses so many of sorted numbers, the first and the last among them.
func evenly(all []float64, most int) []float64 {
	if len(all) <= most {
		return all
	}
	out := make([]float64, most)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(most-1)]
	}
	return out
}
