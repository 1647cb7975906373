package robust

import (
	"slices"
	"time"

	"xdsrelay/relay/robust/record"
)

// Takeover is what the loss of a node costs: how long its keys are without a stream to
// the origin, and what is sent for it although nothing has changed.
type Takeover struct {
	Lease time.Duration `json:"lease_ns"`
	End   string        `json:"end"`  // how the node ended
	Keys  int           `json:"keys"` // whose stream to the origin it had

	// The origin's streams, of all keys: before, the most at a time, and after.
	StreamsBefore int `json:"streams_before"`
	StreamsMost   int `json:"streams_most"`
	StreamsAfter  int `json:"streams_after"`

	// Since the node ended: until a key of its had a stream to the origin again,
	// the median and the last; until there was exactly one for each.
	AgainMedian float64 `json:"again_median_seconds"`
	AgainLast   float64 `json:"again_last_seconds"`
	OneEach     float64 `json:"one_each_seconds"`
	// Changed is until a change of all its keys, made at the moment of its end, had
	// reached all clients; 0 where nothing was changed.
	Changed float64 `json:"changed_seconds"`

	// Clients that were connected to it, and what they were sent at their return,
	// by variant; and what the others were sent.
	MovedDelta      int `json:"moved_delta_clients"`
	MovedDeltaBytes int `json:"moved_delta_bytes"`
	MovedSotW       int `json:"moved_sotw_clients"`
	MovedSotWBytes  int `json:"moved_sotw_bytes"`
	Stayed          int `json:"stayed_clients"`
	StayedBytes     int `json:"stayed_bytes"`
	// OriginBytes is what the origin sent meanwhile.
	OriginBytes int `json:"origin_bytes"`

	// What a first sync of all clients, and of all keys, takes.
	SyncClientBytes int `json:"first_sync_client_bytes"`
	SyncOriginBytes int `json:"first_sync_origin_bytes"`
}

// takeover ends a node, from a time of rest to the next, and starts it again.
func (w *World) takeover(n *Node, end func(*Node), name string, change bool) Takeover {
	w.t.Helper()
	out := Takeover{Lease: w.cfg.Lease, End: name, StreamsBefore: total(w.suite.Model().Streams())}
	before := w.suite.Model().Streams()
	w.observe()
	since := w.to.Since()
	w.recent = nil
	end(n)
	if change {
		for _, key := range w.keys {
			w.origin.Touch(key)
		}
		w.await(record.Held, "after a change", w.suite.Unconverged)
		out.Changed = (w.to.Since() - since).Seconds()
	}
	w.await(record.Rest, "", w.suite.Unsettled)
	out.StreamsAfter = total(w.suite.Model().Streams())
	out.read(w.recent, since, before)
	out.Stayed = w.cfg.Clients - out.MovedDelta - out.MovedSotW
	n.Start()
	w.rest()
	w.fleet.Move(1) // so that it has its share of clients again
	w.rest()
	return out
}

func total(streams map[string]int) (n int) {
	for _, of := range streams {
		n += of
	}
	return n
}

// read reads the events since a node ended. open are the origin's streams by key when
// it did; it had one stream for each key.
func (t *Takeover) read(events []record.Event, since time.Duration, open map[string]int) {
	lost := make(map[string]time.Duration) // when a key had a stream again; 0: not yet
	moved := make(map[string]bool)         // clients
	bytes := make(map[string]int)          // by client
	owned := make(map[string]bool)
	opened := make(map[int]bool) // streams since then
	var settled time.Duration
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case record.OriginEnd:
			if open[e.Key]--; open[e.Key] == 0 {
				lost[e.Key] = 0
			}
			if !opened[e.Stream] {
				owned[e.Key] = true
			}
			settled = e.At
		case record.OriginOpen:
			open[e.Key]++
			opened[e.Stream] = true
			if at, was := lost[e.Key]; was && at == 0 {
				lost[e.Key] = e.At
			}
			settled = e.At
			t.StreamsMost = max(t.StreamsMost, total(open))
		case record.OriginSent:
			t.OriginBytes += e.Bytes
		case record.ClientEnd:
			moved[e.Client] = true
		case record.ClientGot:
			bytes[e.Client] += e.Bytes
		}
	}
	t.Keys = len(owned)
	var took []float64
	for _, at := range lost {
		took = append(took, max(0, (at-since).Seconds()))
	}
	slices.Sort(took)
	if len(took) > 0 {
		t.AgainMedian, t.AgainLast = took[len(took)/2], took[len(took)-1]
	}
	t.OneEach = max(0, (settled - since).Seconds())
	t.StreamsMost = max(t.StreamsMost, t.StreamsBefore)
	for client := range moved {
		if isDelta(client) {
			t.MovedDelta++
		} else {
			t.MovedSotW++
		}
	}
	for client, n := range bytes {
		switch {
		case !moved[client]:
			t.StayedBytes += n
		case isDelta(client):
			t.MovedDeltaBytes += n
		default:
			t.MovedSotWBytes += n
		}
	}
}
