package rollouts

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/rollout"
)

// Record is what is kept of a key.
type Record struct {
	// Salt decides which clients are canaries first. Each good revision has a new one.
	Salt string
	rollout.Record
	// History are the last decisions, the newest last, at most maxWritten.
	History []Decision `json:",omitempty"`
}

// unproven returns the record as it is after a restart: clients have the last known good content, and that
// is what they had before a revision that was not proven.
func (r Record) unproven() rollout.Record {
	one := r.Record
	if one.Reached == rollout.Proving {
		one.Reached, one.Run, one.Stable = rollout.Idle, rollout.Run{}, rollout.Digest{}
		if len(one.Former) > 0 {
			one.Stable, one.Former = one.Former[0], one.Former[1:]
		}
	}
	return one
}

// Records are what outlives the process.
type Records struct {
	Keys   map[aggregation.Key]Record `json:"keys,omitempty"`
	Budget rollout.Budget             `json:"budget,omitzero"`
}

// maxWritten bounds the decisions in a record: the records of all keys are written together.
const maxWritten = 5

// maxRecords bounds the keys of which a record is kept while they have no clients.
const maxRecords = 10_000

// store has the records of keys, with and without clients. The caller guards it.
type store struct {
	all *simplelru.LRU[aggregation.Key, Record]
}

func (s *store) load(r Records) {
	s.all, _ = simplelru.NewLRU[aggregation.Key, Record](maxRecords, nil) // the size is positive
	for key, one := range r.Keys {
		s.all.Add(key, one)
	}
}

func (s *store) saved(b rollout.Budget) Records {
	r := Records{Keys: make(map[aggregation.Key]Record, s.all.Len()), Budget: b}
	for _, key := range s.all.Keys() {
		r.Keys[key], _ = s.all.Peek(key)
	}
	return r
}

// saved returns the record of a key.
func (k *key) saved() Record {
	return Record{k.salt, k.state.Saved(), k.history[max(0, len(k.history)-maxWritten):]}
}

// record keeps the record of a key.
func (c *Controller) record(k *key) {
	r := k.saved()
	if r.Reached == rollout.Idle && r.Stable.IsZero() && r.Refused == nil {
		c.records.all.Remove(k.group.Key) // there was no rollout
		return
	}
	c.records.all.Add(k.group.Key, r)
}
