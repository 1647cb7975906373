package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A client that polls has no connection whose end would say that it has gone. Where it
// goes on to another node of the tier, both would tell of it until the first one has
// forgotten it, and all updates from then on would seem not to reach it there. So the
// nodes tell one another who polled them of late, and what, in marks that say nothing to
// others; who has polled the same of another one since is forgotten. By kinds of polls,
// since a load balancer may bring those for one type to one node and those for another
// type to another one.

// Visit is a kind of polls of one client, and how long ago the last one was.
type Visit struct {
	Mark string        `json:"m"`
	Ago  time.Duration `json:"a"`
}

// MostVisits bounds how many a node tells of: the latest.
const MostVisits = 5000

// clockSlack is by how much a poll has to be later than another one to count as later:
// as long as a question between nodes may take on its way.
const clockSlack = 250 * time.Millisecond

// Lately are the kinds of polls of which the last one was within a time.
func (s *Server) Lately(within time.Duration) []Visit { return s.roster.lately(within, time.Now()) }

// Elsewhere takes in what another node tells, and forgets the kinds of polls of which that
// one had a later one.
func (s *Server) Elsewhere(visits []Visit) { s.roster.elsewhere(visits, time.Now()) }

func (r *roster) lately(within time.Duration, now time.Time) []Visit {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Visit{}
	for e := r.recent.Front(); e != nil && len(out) < MostVisits; e = e.Next() {
		v := e.Value.(*visits)
		ago := v.ago(now)
		if ago > within {
			break // the list is by when they began
		}
		out = append(out, Visit{v.mark, ago})
	}
	return out
}

func (r *roster) elsewhere(theirs []Visit, now time.Time) {
	if len(theirs) == 0 {
		return
	}
	ago := make(map[string]time.Duration, len(theirs))
	for _, v := range theirs {
		ago[v.Mark] = v.Ago
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for e := r.recent.Back(); e != nil; {
		v := e.Value.(*visits)
		e = e.Prev()
		if there, ok := ago[v.mark]; ok && there+clockSlack < v.ago(now) {
			r.forget(v)
		}
	}
}

// ago is how long ago the last poll was. It needs the roster's mu.
func (v *visits) ago(now time.Time) time.Duration {
	if v.open > 0 {
		return 0
	}
	return max(0, now.Sub(v.polled))
}

// markOf is the same on all nodes for the same kind of polls of the same client, and says
// nothing of either.
func markOf(by who, w what) string {
	text, _ := json.Marshal([]any{by.id, by.key, by.identity, by.host, w.url, w.wildcard, w.names}) // texts can always be written
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
