package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// A polling client has no connection whose end would show that it has left. If it moves to another
// node of the tier, both nodes would show it until the first one forgets it, and updates would seem
// not to reach it there. So nodes exchange hashed identifiers of recent polls, and each drops those
// that another node has seen more recently. That is done per subject, since a load balancer may
// route polls for different types to different nodes.

// RecentPoll identifies a poll state and says how long ago its last poll was.
type RecentPoll struct {
	Mark string        `json:"m"`
	Ago  time.Duration `json:"a"`
}

// MaxRecentPolls bounds how many recent polls a node reports: the latest.
const MaxRecentPolls = 5000

// clockSlack is by how much a poll must be later than another one to count as later. It covers the
// time that a request between nodes takes.
const clockSlack = 250 * time.Millisecond

// RecentPolls returns the poll states whose last poll was within the given time.
func (s *Server) RecentPolls(within time.Duration) []RecentPoll {
	return s.registry.recentPolls(within, time.Now())
}

// PolledElsewhere drops the poll states that another node, which reports polls, has seen more
// recently.
func (s *Server) PolledElsewhere(polls []RecentPoll) { s.registry.polledElsewhere(polls, time.Now()) }

func (r *pollRegistry) recentPolls(within time.Duration, now time.Time) []RecentPoll {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []RecentPoll{}
	for e := r.recent.Front(); e != nil && len(out) < MaxRecentPolls; e = e.Next() {
		v := e.Value.(*pollState)
		ago := v.ago(now)
		if ago > within {
			break // the list is ordered by the last begin
		}
		out = append(out, RecentPoll{v.mark, ago})
	}
	return out
}

func (r *pollRegistry) polledElsewhere(theirs []RecentPoll, now time.Time) {
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
		v := e.Value.(*pollState)
		e = e.Prev()
		if there, ok := ago[v.mark]; ok && there+clockSlack < v.ago(now) {
			r.remove(v)
		}
	}
}

// ago returns how long ago the last poll was. The caller holds the registry's mu.
func (v *pollState) ago(now time.Time) time.Duration {
	if v.open > 0 {
		return 0
	}
	return max(0, now.Sub(v.polled))
}

// markOf returns an identifier for a client and subject that is the same on all nodes and reveals
// neither.
func markOf(by clientID, w subject) string {
	text, _ := json.Marshal([]any{by.id, by.key, by.identity, by.host, w.url, w.wildcard, w.names}) // strings can always be encoded
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
