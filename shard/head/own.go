package head

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// owned is a key that this node owns, and what it has written of it. All fields are
// guarded by the mu of Heads.
type owned struct {
	key   string
	group *cache.Group
	since time.Time
	// answers are how many each table had had when the key became this node's, by type
	// URL, where the origin had not confirmed on this node what the table holds.
	answers map[string]uint64

	epoch  uint64          // 0: not claimed, or taken by somebody else since
	before map[string]Head // what there was when it was claimed, by type URL
	// gone are those of before that Redis does not have any more. They stand until this node
	// has something to write: else the next owner would find nothing that is newer than its own.
	gone map[string]Head
	// heads are those of this epoch. Whatever a write came to, the next one of
	// something else has a higher generation, so that an older one that arrives late
	// does no harm. Of those in sure it is known that Redis has them.
	heads   map[string]Head
	sure    map[string]bool
	written time.Time // when the last write was
	queued  bool
	// deferred says that something was left as it was, for now.
	deferred bool
	refused  int       // how often in a row somebody else had a higher epoch
	after    time.Time // not to be claimed again before
}

func newOwned(g *cache.Group, now time.Time) *owned {
	o := &owned{key: string(g.Key), group: g, since: now, answers: make(map[string]uint64)}
	for _, t := range g.Tables() {
		if e := t.Edition(); !e.Confirmed {
			o.answers[t.Type.URL] = e.Updates
		}
	}
	return o
}

// claimed notes that the key has been claimed, and what there was of it: what Redis has, and
// what this node knows from before Redis lost it.
func (o *owned) claimed(k kept, known map[string]Head) {
	o.epoch, o.before = k.epoch, maps.Clone(known)
	o.heads, o.sure = make(map[string]Head), make(map[string]bool)
	maps.DeleteFunc(o.before, func(_ string, h Head) bool { return h.Epoch >= k.epoch })
	if o.before == nil {
		o.before = make(map[string]Head)
	}
	maps.Copy(o.before, k.heads)
	o.miss(k)
}

// miss notes which of the heads from before the claim Redis does not have.
func (o *owned) miss(k kept) {
	o.gone = make(map[string]Head)
	for url, h := range o.before {
		if _, there := k.heads[url]; !there {
			h.Trace = "" // the update is over
			o.gone[url] = h
		}
	}
}

// due returns what is to be written of tables in these states. wait bounds how long
// a head of another node stands although there is something else here.
func (o *owned) due(editions []cache.Edition, owner string, wait time.Duration, now time.Time) map[string]Head {
	var heads map[string]Head
	o.deferred = false
	for _, e := range editions {
		url := e.Type.URL
		last, ours := o.heads[url]
		if !ours {
			last = o.before[url]
		}
		same := last.Generation > 0 && last.holds(e)
		switch {
		case ours && same && o.sure[url]:
			continue
		case e.Updates == 0: // nothing has been said of it
			continue
		case !ours && last.Generation > 0 && !same && e.Updates == o.answers[url] && now.Before(o.since.Add(wait)):
			// The node before had something else, and the origin has not spoken since:
			// what is here may be what it had before that.
			o.deferred = true
			continue
		}
		h := last
		if !ours || !same {
			h = Head{Epoch: o.epoch, Generation: last.Generation, Digest: e.Digest, Version: e.Version, Owner: owner, At: now}
		}
		if !same {
			// What was there may have the last generation, by mistake: in a new epoch they
			// may begin again.
			h.Generation = h.Generation%(maxNumber-1) + 1
			h.Trace = e.Traced.Parent()
		}
		if heads == nil {
			heads = make(map[string]Head)
		}
		heads[url] = h
	}
	for url, h := range o.gone {
		if _, ours := o.heads[url]; ours || heads[url].Generation > 0 {
			continue
		}
		if heads == nil {
			heads = make(map[string]Head)
		}
		heads[url] = h
	}
	return heads
}

// writes notes that heads are about to be written.
func (o *owned) writes(heads map[string]Head) {
	for url, h := range heads {
		if h.Epoch == o.epoch {
			o.heads[url] = h
			delete(o.sure, url)
		}
	}
}

// wrote notes that Redis has heads, or newer ones.
func (o *owned) wrote(heads map[string]Head, now time.Time) {
	for url, h := range heads {
		if delete(o.gone, url); h.Epoch == o.epoch {
			o.sure[url] = true
		}
	}
	o.written, o.refused = now, 0
}

// longestPause bounds how long a key is left to somebody else who claims it, too.
const longestPause = 30 * time.Second

// lose notes that somebody else has claimed the key since. Where this node goes on
// being its owner in the eyes of the members, it claims the key again, after a while
// that grows: the other one is about to see that, or this one.
func (o *owned) lose(now time.Time) {
	o.epoch, o.heads, o.sure, o.before, o.gone = 0, nil, nil, nil, nil
	pause := min(time.Second<<min(o.refused, 10), longestPause)
	o.refused++
	o.after = now.Add(pause/2 + rand.N(pause))
}

// differs compares what Redis has with what this node has written there: whether the key
// is lost, and whether something has to be written again, since it is missing or has been
// kept for long. The key is lost where another node has claimed it since, and where a head
// of this node's epoch is newer than all that it has written: that is replaced only by one
// of another epoch.
func (o *owned) differs(k kept, now time.Time) (lost, missing bool) {
	if o.epoch == 0 {
		return false, !now.Before(o.after)
	}
	if k.epoch > o.epoch {
		return true, false
	}
	if k.epoch < o.epoch || len(o.heads) > 0 && now.Sub(o.written) > keptFor/7 {
		return false, true
	}
	for _, heads := range []map[string]Head{k.heads, k.unsigned} {
		for url, there := range heads {
			if there.newer(o.heads[url]) && there.Epoch == o.epoch {
				return true, false
			}
		}
	}
	for url, h := range o.heads {
		if there, ok := k.heads[url]; o.sure[url] && (!ok || !h.same(there)) {
			return false, true
		}
	}
	for url := range o.before {
		if _, there := k.heads[url]; !there && o.heads[url].Generation == 0 {
			return false, true
		}
	}
	return false, false
}

// again makes all that was written of the key due once more, and what was there before as
// far as Redis does not have it.
func (o *owned) again(k kept) {
	clear(o.sure)
	o.miss(k)
}

// editions are the states of all tables of a group.
func editions(g *cache.Group) []cache.Edition {
	tables := g.Tables()
	all := make([]cache.Edition, len(tables))
	for i, t := range tables {
		all[i] = t.Edition()
	}
	return all
}

// editionOf is the state of the table of a type, as of one that holds nothing where
// there is none.
func editionOf(g *cache.Group, url string) (e cache.Edition) {
	for _, t := range g.Tables() {
		if t.Type.URL == url {
			return t.Edition()
		}
	}
	return e
}

// tracedFor is how long the trace of a head is gone on with: who hears of it later does
// so because it has come later, and the update is over.
const tracedFor = time.Minute

// agree tells the cache what is newest of a type of a group.
func agree(g *cache.Group, url string, h Head, own bool) {
	if time.Since(h.At) > tracedFor {
		h.Trace = ""
	}
	g.Agree(resource.TypeOf(url), cache.Agreed{Digest: h.Digest, Version: h.Version, Own: own, At: h.At, Trace: h.Trace})
}

// Own writes the heads of a group as long as this node owns its key, that is until
// ctx ends. A group must not be owned twice at a time.
func (h *Heads) Own(ctx context.Context, g *cache.Group) {
	news, stop := g.Changes()
	defer stop()
	o := newOwned(g, time.Now())
	h.mu.Lock()
	h.owned[o.key] = o
	h.followLocked(g)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.owned[o.key] == o {
			delete(h.owned, o.key)
		}
	}()
	for {
		h.enqueue(o)
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}
