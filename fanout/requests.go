package fanout

import (
	"slices"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// wildcardName is the name that stands for all resources of a type.
const wildcardName = "*"

// applySotWLocked applies a DiscoveryRequest. It returns what that says of the
// newest response, and whether it counts at all.
func (s *stream) applySotWLocked(ts *typeState, r *resource.Request, initial bool) (answer verdict, counts bool) {
	answered := ts.nonce != ""
	ts.named = ts.named || len(r.Names) > 0 || r.Located // B19, whatever the nonce
	// B7, B10: without a nonce to judge by it is just a statement of names.
	if answered && r.Nonce != "" {
		if r.Nonce != ts.nonce {
			ts.metrics.stale()
			return none, false // B8: a newer request is on its way, and its names count
		}
		answer = s.judgeLocked(ts, r)
	}
	if initial {
		ts.claimed = r.Version
	}
	wild := slices.Contains(r.Names, wildcardName)
	names := resource.WithoutGlobs(withoutWildcard(r.Names)) // D8
	if !ts.named {
		wild = ts.table.Type.Wildcard // B20, B21
	}
	ed := ts.table.Replace(&ts.watcher, wild, names)
	ts.edited(ed, false)
	if answered && r.Nonce == "" && (ed.Wildcard || len(ed.Added) > 0) {
		// B10: the client may have forgotten the response that is in flight,
		// and waits for what it asks now. If it does answer both, its answer
		// to the newer one states its names once more (B17).
		ts.inFlight = false
	}
	return answer, true
}

// applyDeltaLocked applies a DeltaDiscoveryRequest. It returns what that says of
// the newest response.
func (s *stream) applyDeltaLocked(ts *typeState, r *resource.Request, initial bool) (answer verdict) {
	if ts.nonce != "" && r.Nonce == ts.nonce {
		answer = s.judgeLocked(ts, r)
	} else if r.Nonce != "" {
		ts.metrics.stale() // B11: the lists count all the same
	}
	e := cache.Edit{
		Add: withoutWildcard(r.Subscribe), Remove: withoutWildcard(r.Unsubscribe),
		AddWildcard:    slices.Contains(r.Subscribe, wildcardName),
		RemoveWildcard: slices.Contains(r.Unsubscribe, wildcardName),
	}
	if initial {
		if len(r.Subscribe)+len(r.Unsubscribe) == 0 && !r.Located {
			e.AddWildcard = ts.table.Type.Wildcard // B23
		}
		ts.claims = r.Held // B37
		if len(r.Held) > 0 && s.resumed.IsZero() {
			s.resumed = time.Now()
		}
		if u := ts.table.Type.URL; u == resource.EndpointURL || u == resource.EndpointV2URL {
			if ts.claims != nil { // otherwise all of them are news
				ts.refresh = s.warming
			}
			s.warming = nil
		}
	}
	ed := ts.table.Edit(&ts.watcher, e)
	// B35, but not of a client that states its wildcard with every answer.
	again := e.AddWildcard && !e.RemoveWildcard && !initial && answer == none
	ts.edited(ed, again)
	if initial {
		return answer
	}
	names := cache.KeysOf(e.Add).Without(resource.CanonicalNames(e.Remove)).Without(ed.Added)
	ts.askedAgain(names, answer, time.Now())
	if ts.onDemand() {
		ts.asked = ts.asked.With(cache.NewNames(slices.Clone(ed.Added)))
		if answer == none {
			ts.asked = ts.asked.With(names)
		}
	}
	switch h := ts.table.Head(&ts.watcher); {
	case h.Wildcard:
		ts.tell = ts.tell.With(cache.NewNames(ed.Removed)) // B36
	case h.Globs > 0:
		// The same for what a glob still covers, of which no client can
		// conclude that it is gone.
		ts.refresh = ts.refresh.With(cache.NewNames(ed.Removed))
	}
	return answer
}

// verdict is what a request says of the newest response.
type verdict int

const (
	none     verdict = iota // nothing, or nothing new
	accepted                // ACK
	rejected                // NACK
)

// judgeLocked takes a request that quotes the newest nonce as ACK or NACK. A
// second one only states a subscription.
func (s *stream) judgeLocked(ts *typeState, r *resource.Request) verdict {
	if !ts.open {
		return none
	}
	now := time.Now()
	if r.Rejected { // B13
		again := ts.nack != nil
		s.unacked -= ts.refused(r, now)
		ts.metrics.nack()
		if !again {
			s.srv.nacked(s, ts)
		}
		return rejected
	}
	ts.metrics.ack(now.Sub(ts.sentAt))
	s.unacked -= ts.accepted()
	return accepted
}

func withoutWildcard(names []string) []string {
	if !slices.Contains(names, wildcardName) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == wildcardName })
}
