package fanout

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"xdsrelay/relay/cache"
)

// settlingTime is how long a new client is shed only after all others: a load balancer may return
// it to the same node each time.
const settlingTime = 10 * time.Minute

// shedRank decides which connections leave a node that has too many.
//
// Clients choose where they connect next, so a node cannot send one to a node that has its key. It
// can only choose which clients leave: a key without clients costs this node neither memory nor a
// stream to the key's owner, while a client of a key with many clients here frees nothing, and
// brings the key to a node that may not have had it.
type shedRank struct {
	recent     bool   // connected less than settlingTime ago
	private    bool   // its key is its own: it costs the same on any node, and would be fetched again
	keyClients int    // number of clients of its key on this node, including this one
	keyHash    uint64 // of its key, the same on all nodes: so clients of one key leave together
}

// compare is negative if a leaves before b.
func (a shedRank) compare(b shedRank) int {
	return cmp.Or(yes(a.recent)-yes(b.recent), yes(a.private)-yes(b.private), a.keyClients-b.keyClients, cmp.Compare(a.keyHash, b.keyHash))
}

func yes(is bool) int {
	if is {
		return 1
	}
	return 0
}

// sortForShedding sorts connections: those that should leave first are first.
func (s *Server) sortForShedding(all []*connection, now time.Time) {
	type key struct {
		keyClients int
		keyHash    uint64
	}
	keys := make(map[*cache.Group]*key)
	for _, g := range all {
		for _, st := range g.states {
			of := st.groupNow()
			k := keys[of]
			if k == nil {
				k = &key{}
				if of != nil {
					k.keyHash = xxhash.Sum64String(string(of.Key))
				}
				keys[of] = k
			}
			k.keyClients++
		}
	}
	as := make(map[*connection]shedRank, len(all))
	for _, g := range all {
		var l shedRank
		for _, st := range g.states {
			of := st.groupNow()
			l.recent = l.recent || now.Sub(s.timeOf(st.since)) < settlingTime
			l.private = l.private || of != nil && of.Private()
			if k := keys[of]; k != nil && k.keyClients > l.keyClients { // a connection with several keys frees at most the smaller ones
				l.keyClients, l.keyHash = k.keyClients, k.keyHash
			}
		}
		as[g] = l
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *connection) int { return as[a].compare(as[b]) })
}
