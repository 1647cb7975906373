package fleet

import "github.com/cespare/xxhash/v2"

// auditEvery is which share of the clients remembers all nonces: one in so many.
const auditEvery = 64

// nonces are the last few of a type on a stream, as hashes.
type nonces struct {
	last [4]uint64
	next uint8
}

// repeated notes a nonce, and reports whether it was there before.
func (n *nonces) repeated(nonce []byte) bool {
	h := xxhash.Sum64(nonce)
	for _, l := range n.last {
		if l == h {
			return true
		}
	}
	n.last[n.next%uint8(len(n.last))] = h
	n.next++
	return false
}

// audit remembers all nonces of a client's streams. A nil one remembers none.
type audit struct {
	seen [kinds]map[uint64]struct{}
}

func (a *audit) repeated(k kind, nonce []byte) bool {
	if a == nil {
		return false
	}
	if a.seen[k] == nil {
		a.seen[k] = make(map[uint64]struct{})
	}
	h := xxhash.Sum64(nonce)
	_, there := a.seen[k][h]
	a.seen[k][h] = struct{}{}
	return there
}

func (a *audit) clear() {
	if a != nil {
		a.seen = [kinds]map[uint64]struct{}{}
	}
}
