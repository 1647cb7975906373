package robust

import (
	"fmt"
	"strings"
	"time"
)

// TakeoverReport is what came of it.
type TakeoverReport struct {
	Nodes        int           `json:"nodes"`
	Clients      int           `json:"clients"`
	Keys         int           `json:"keys"`
	Resources    int           `json:"resources_per_key"`
	OwnerTimeout time.Duration `json:"owner_timeout_ns"`
	Started      time.Time     `json:"started"`
	Takeovers    []Takeover    `json:"takeovers"`
}

// Takeovers measures with a tier whose first rest has come.
func (w *World) Takeovers(times int) (all []Takeover) {
	w.t.Helper()
	sync := w.totals
	for i := range times {
		for _, way := range []struct {
			name   string
			end    func(*Node)
			change bool
		}{
			{"kill -9", (*Node).Kill, false},
			{"kill -9, and a change", (*Node).Kill, true},
			{"SIGTERM", (*Node).Terminate, false},
		} {
			t := w.takeover(w.nodes[i%len(w.nodes)], way.end, way.name, way.change)
			t.SyncClientBytes, t.SyncOriginBytes = sync.ClientBytes, sync.OriginBytes
			w.logf("lease %v: %+v", w.cfg.Lease, t)
			all = append(all, t)
			if len(w.found) > 0 {
				return all
			}
		}
	}
	return all
}

// Write writes the report into a folder, as JSON and to be read.
func (r *TakeoverReport) Write(dir, name string) error {
	return write(dir, name, r, r.Page())
}

// Page is the report in Markdown.
func (r *TakeoverReport) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The loss of a node of a tier

%d relay processes and one Redis, %d clients of all four variants on %d keys of %d resources, a delta origin; %s.
Owners may be out of reach for %v. Each row is one measurement; times are in seconds since the node ended.

**Stream again** is when a key that the node owned had a stream to the origin again, in the median and for the last key:
a node that needs the key asks the origin itself once the owner is out of reach for that long; it is 0 where the key was
never without one, as after SIGTERM, when keys are handed over first. **One each** is when the origin
saw exactly one stream for each key again. **Change** is when a change of all keys, made right after the end, had reached
every client.

| Lease | End | Its keys | Stream again, median | Last | One each | Change | Origin's streams before | Most | After |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|
`, r.Nodes, r.Clients, r.Keys, r.Resources, r.Started.Format(time.DateTime+" UTC"), r.OwnerTimeout)
	for _, t := range r.Takeovers {
		change := "–"
		if t.Changed > 0 {
			change = fmt.Sprintf("%.1f", t.Changed)
		}
		fmt.Fprintf(&b, "| %v | %s | %d | %.1f | %.1f | %.1f | %s | %d | %d | %d |\n",
			t.Lease, t.End, t.Keys, t.AgainMedian, t.AgainLast, t.OneEach, change, t.StreamsBefore, t.StreamsMost, t.StreamsAfter)
	}
	b.WriteString(`
What was sent for it. Clients of the node go to another one; delta clients say what they hold, those without delta can only say
a version, which proves nothing for what is asked for by name, so that the protocol makes a relay send that again. A first sync is what all
clients were sent at the start of the run, and what the origin sent.

| Lease | End | Moved clients, delta | Bytes to each | Without delta | Bytes to each | Clients that stayed | Bytes to all of them | Origin sent | First sync: clients | Origin |
|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`)
	for _, t := range r.Takeovers {
		fmt.Fprintf(&b, "| %v | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", t.Lease, t.End,
			t.MovedDelta, t.MovedDeltaBytes/max(1, t.MovedDelta), t.MovedSotW, t.MovedSotWBytes/max(1, t.MovedSotW),
			t.Stayed, t.StayedBytes, t.OriginBytes, t.SyncClientBytes, t.SyncOriginBytes)
	}
	return b.String()
}
