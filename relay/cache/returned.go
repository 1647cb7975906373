package cache

import (
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// proof is a sum over the claims of a client that returned with exactly what it should have. It
// proves the same of every client whose claims have this sum.
type proof struct {
	sum          uint64
	len, size    int
	gen          uint64 // of the table
	subscription uint64 // the content
}

// Returned compares the claims of a reconnected client with what it should see, like
// [Table.Reconcile], but only as far as that is cheap: for claims of exactly the resources that it
// should see, in whatever versions. They are read where they are, and nothing is made for each.
// First a sum is compared with that of an earlier client of the subscription. ok is false for
// others, for which the claims have to be decoded.
func (t *Table) Returned(w *Watcher, claims resource.HeldList) (send *Names, at Position, ok bool) {
	t.mu.RLock()
	s := w.sub
	if s == nil || !t.core.settled(s) {
		t.mu.RUnlock()
		return nil, Start, false
	}
	r := reconciling{table: &t.core, sub: s}
	r.whole = r.count()
	now := proof{gen: t.core.store.Gen(), subscription: s.id, len: claims.Len(), size: claims.Bytes()}
	at = Position{Gen: s.gen, Removed: s.gen}
	t.mu.RUnlock()
	if !r.whole || claims.Len() != r.expected.Live {
		return nil, Start, false
	}
	now.sum = claims.Sum(t.seeds[0])
	if p := s.proof.Load(); p != nil && *p == now {
		return nil, at, true
	}
	if ok = r.takeAll(claims); !ok || r.matched != r.expected {
		return nil, Start, false
	}
	if again := NewNames(r.names); again != nil {
		return again, at, true
	}
	t.mu.RLock()
	if t.core.store.Gen() == now.gen && s.id == now.subscription && s.count > 1 { // a client alone returns too rarely to keep it
		s.proof.Store(&now)
	}
	t.mu.RUnlock()
	return nil, at, true
}

// settled reports whether the comparison of a client's claims depends on the resources alone.
func (t *core) settled(s *Subscription) bool {
	return !s.private && t.errored.Len() == 0 && t.known(s) && !t.held(s) && !t.doubts(s) &&
		(!s.key.wildcard || t.wildJudged()) && !t.behind()
}

// takeAll compares claims, and adds the names that must be sent again because the version has
// changed. It returns false if a claim is not of a resource that the client should see.
func (r *reconciling) takeAll(claims resource.HeldList) bool {
	mu, left := &r.table.shell.mu, 0
	for name, version := range claims.All() {
		if left == 0 {
			mu.RLock()
			left = r.table.group.cache.step
		}
		all := r.take(name, version)
		if left--; left == 0 || !all {
			mu.RUnlock()
			left = 0
		}
		if !all {
			return false
		}
	}
	if left > 0 {
		mu.RUnlock()
	}
	return true
}

func (r *reconciling) take(name, version []byte) bool {
	if resource.IsURNBytes(name) {
		return false // it may have another spelling
	}
	e := r.table.store.GetBytes(name)
	if e == nil || !r.has(e) {
		return false
	}
	r.matched.Live++
	r.matched.Digest = r.matched.Digest.Add(e.Res.Member())
	if string(version) != e.Res.Version {
		r.names = append(r.names, e.Name)
	}
	return true
}

// has reports whether a client of the subscription has the resource of e once it is in sync.
func (r *reconciling) has(e *table.Entry) bool {
	return e.Res != nil && r.sub.seesNow(e) && !(r.sub.key.wildcard && e.Wild == 0)
}
