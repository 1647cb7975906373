package head

import (
	"maps"
	"time"

	"github.com/cenkalti/backoff/v5"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
)

// owned is a key that this node owns, and what it has written of it. The mu of Heads guards all
// fields.
type owned struct {
	key   string
	group *cache.Group
	since time.Time
	// answers are how many answers each table had received when this node became the owner, by type
	// URL. Only tables whose content the control plane had not confirmed on this node are listed.
	answers map[string]uint64

	epoch  uint64          // 0: not claimed, or another node has claimed it since
	before map[string]Head // heads at the time of the claim, by type URL
	// missing are the heads in before that Redis has lost. They remain until this node has
	// something to write: otherwise the next owner would find nothing newer than its own content.
	missing map[string]Head
	// heads are those of this epoch. Whatever happened to a write, the next write of other content
	// has a higher generation, so that an older one that arrives late does no harm. confirmed has
	// the types whose heads are known to be in Redis.
	heads     map[string]Head
	confirmed map[string]bool
	written   time.Time // time of the last write
	// deferred is true if something was not written yet.
	deferred bool
	again    *later                     // puts the key into the queue again when overtakenFor is over
	pauses   backoff.ExponentialBackOff // after claims that another node won, until a write
	after    time.Time                  // not to be claimed again before
}

func newOwned(g *cache.Group, now time.Time) *owned {
	o := &owned{key: string(g.Key), group: g, since: now, answers: make(map[string]uint64), pauses: claimPauses()}
	for _, t := range g.Tables() {
		if e := t.Digest(); !e.Confirmed {
			o.answers[t.Type.URL] = e.Updates
		}
	}
	return o
}

// claimed records a claim and the heads from before it: those in Redis, and those that this node
// knows from before Redis lost them.
func (o *owned) claimed(k keyState, known map[string]Head) {
	o.epoch, o.before = k.epoch, maps.Clone(known)
	o.heads, o.confirmed = make(map[string]Head), make(map[string]bool)
	maps.DeleteFunc(o.before, func(_ string, h Head) bool { return h.Epoch >= k.epoch })
	if o.before == nil {
		o.before = make(map[string]Head)
	}
	maps.Copy(o.before, k.heads)
	o.noteMissing(k)
}

// noteMissing records which of the heads from before the claim Redis does not have.
func (o *owned) noteMissing(k keyState) {
	o.missing = make(map[string]Head)
	for url, h := range o.before {
		if _, there := k.heads[url]; !there {
			h.Trace = "" // the update is over
			o.missing[url] = h
		}
	}
}

// overtakenFor is how long after another node the control plane's message with the same content may
// arrive. A node that becomes the owner meanwhile does not undo the head of the other one.
const overtakenFor = 3 * time.Second

// due returns the heads to write for tables in these states. wait bounds how long a head of another
// node is kept, or none is written, although this node has other content.
func (o *owned) due(editions []cache.TableDigest, owner string, wait time.Duration, now time.Time) map[string]Head {
	var heads map[string]Head
	o.deferred = false
	for _, e := range editions {
		url := e.Type.URL
		last, ours := o.heads[url]
		if !ours {
			last = o.before[url]
		}
		// Content that nobody asks for any more is no newer content: the head stays.
		same := last.Generation > 0 && (last.holds(e) || ours && !e.Known)
		switch {
		case ours && same && o.confirmed[url]:
			continue
		case e.Updates == 0: // the control plane has not answered yet
			continue
		case !e.Known && !ours:
			continue
		case !ours && !same && e.Updates == o.answers[url] && now.Before(o.since.Add(wait)):
			// The control plane has not answered since, and the previous owner had other content, or
			// Redis has lost the head of it: this node may have even older content.
			o.deferred = true
			continue
		case !ours && !same && e.Standing >= tierhead.Overtaken && now.Before(o.since.Add(overtakenFor)):
			// Another node had newer content first.
			o.deferred = true
			continue
		}
		h := last
		if !ours || !same {
			h = Head{Epoch: o.epoch, Generation: last.Generation, Digest: e.Digest, Version: e.Version, Owner: owner, At: now}
		}
		if !same {
			// The existing head may have the last generation, by mistake: in a new epoch
			// generations may restart.
			h.Generation = h.Generation%(maxNumber-1) + 1
			h.Trace = e.Traced.Parent()
		}
		if heads == nil {
			heads = make(map[string]Head)
		}
		heads[url] = h
	}
	for url, h := range o.missing {
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

// writes records that heads are about to be written.
func (o *owned) writes(heads map[string]Head) {
	for url, h := range heads {
		if h.Epoch == o.epoch {
			o.heads[url] = h
			delete(o.confirmed, url)
		}
	}
}

// wrote records that Redis has heads, or newer ones.
func (o *owned) wrote(heads map[string]Head, now time.Time) {
	for url, h := range heads {
		if delete(o.missing, url); h.Epoch == o.epoch {
			o.confirmed[url] = true
		}
	}
	o.written = now
	o.pauses.Reset()
}

// longestPause bounds, before jitter, how long a key is left to another node that claims it, too.
const longestPause = 30 * time.Second

func claimPauses() backoff.ExponentialBackOff {
	return backoff.ExponentialBackOff{InitialInterval: time.Second, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: longestPause}
}

// lose records that another node has claimed the key. If this node remains the owner by the view of
// members, it claims the key again after a growing pause: one of the two is about to see another
// view.
func (o *owned) lose(now time.Time) {
	o.epoch, o.heads, o.confirmed, o.before, o.missing = 0, nil, nil, nil, nil
	o.after = now.Add(o.pauses.NextBackOff())
}

// differs compares the state in Redis with what this node has written there. lost means that the
// key is lost; missing that something must be written again, because it is missing or was written
// long ago. The key is lost if another node has claimed it since, or if a head of this node's epoch
// is newer than all that it has written: only one of another epoch can replace that.
func (o *owned) differs(k keyState, now time.Time) (lost, missing bool) {
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
		if there, ok := k.heads[url]; o.confirmed[url] && (!ok || !h.same(there)) {
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

// rewriteAll makes everything that was written of the key due again, and also the heads from before
// the claim that Redis does not have.
func (o *owned) rewriteAll(k keyState) {
	clear(o.confirmed)
	o.noteMissing(k)
}

// editions returns the states of all tables of a group.
func editions(g *cache.Group) []cache.TableDigest {
	tables := g.Tables()
	all := make([]cache.TableDigest, len(tables))
	for i, t := range tables {
		all[i] = t.Digest()
	}
	return all
}

// editionOf returns the state of the table of a type, that of an empty table if there is none.
func editionOf(g *cache.Group, url string) (e cache.TableDigest) {
	for _, t := range g.Tables() {
		if t.Type.URL == url {
			return t.Digest()
		}
	}
	return e
}

// tracedFor is how long the trace of a head is continued: a node that reads the head later does so
// for another reason, and the update is over.
const tracedFor = time.Minute

// reportToCache reports the newest head of a type of a group to the cache.
func reportToCache(g *cache.Group, url string, h Head, own bool) {
	if time.Since(h.At) > tracedFor {
		h.Trace = ""
	}
	g.ObserveHead(resource.TypeOf(url), cache.TierHead{Digest: h.Digest, Version: h.Version, Own: own, At: h.At, Trace: h.Trace})
}

// Own writes the heads of a group as long as this node owns its key, that is until end is called. A
// group must not be owned twice at the same time. Neither Own nor end waits for Redis.
func (h *Heads) Own(g *cache.Group) (end func()) {
	o := newOwned(g, time.Now())
	o.again = &later{after: overtakenFor, do: func() { h.queue.add(o) }}
	h.mu.Lock()
	h.owned[o.key] = o
	h.followLocked(g)
	h.mu.Unlock()
	stop := g.OnChange(func() { h.queue.add(o) })
	h.queue.add(o) // for what has changed since newOwned
	return func() {
		stop()
		o.again.stop()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.owned[o.key] == o {
			delete(h.owned, o.key)
		}
	}
}
