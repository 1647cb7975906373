package rollouts

import (
	"encoding/json"
	"errors"
	"fmt"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// What clients had before the newest revisions is kept, so that these can be undone: in memory, and in a tier
// also in Redis, for the next owner of the key.

// maxFormerBytes bounds the replaced resources that are kept for orders to undo, for each key. Those of the
// newest revision are kept in any case. In Redis, it bounds all of them, compressed.
const maxFormerBytes = 4 << 20

// former is what clients had before a revision.
type former struct {
	revision rollout.Digest // the one after it
	contents *cache.Former  // nil: this node does not have them
	why      string         // it does not; empty with contents
}

// ErrNoContents refuses to undo a revision of which this node does not have the contents before.
var ErrNoContents = errors.New("this node does not have the contents of the revision before")

// noContents says why the newest revision cannot be undone, and what to do; nil if it can.
func (k *key) noContents() error {
	why := "this node was started after the newest revision was released, or they exceeded 4 MiB"
	switch {
	case len(k.former) > 0 && k.former[0].contents != nil:
		return nil
	case len(k.former) > 0:
		why = k.former[0].why
	case k.c.cfg.Tier != nil:
		why = "another node released the newest revision, and Redis does not have them"
	}
	return fmt.Errorf("%w: %s; return to the former configuration in the control plane", ErrNoContents, why)
}

// released keeps what clients had before a revision.
func (k *key) released(o *cache.Overlay) {
	k.former = append([]former{{revision: k.state.Stable, contents: o.Former()}}, k.former...)
	var bytes int64
	for i, f := range k.former {
		if f.contents != nil {
			bytes += f.contents.Bytes()
		}
		if i > 0 && (i >= rollout.MaxUndo || bytes > maxFormerBytes) {
			k.former = k.former[:i:i]
			break
		}
	}
	k.contents++
}

// storedContents are former contents in the ledger, the newest first.
type storedContents struct {
	Former []storedFormer `json:"former"`
}

type storedFormer struct {
	Revision rollout.Digest `json:"revision"`
	Sealed   []byte         `json:"sealed,omitempty"`
	// Why says why they are not stored.
	Why string `json:"why,omitempty"`
}

// store returns former contents for the ledger. It is called without a lock: it may take a while.
func (t *Tier) store(key string, all []former) string {
	out := storedContents{Former: []storedFormer{}}
	size := 0
	for _, f := range all {
		one := storedFormer{Revision: f.revision, Why: f.why}
		if f.contents != nil {
			sealed, err := t.Seal(key, f.contents)
			switch size += len(sealed); {
			case err != nil:
				one.Why = "the node that released the newest revision could not store them: " + err.Error()
			case size > maxFormerBytes:
				one.Why = "they exceed 4 MiB, so only the node that released the newest revision had them"
			default:
				one.Sealed = sealed
			}
		}
		out.Former = append(out.Former, one)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic("rollouts: former contents cannot be written as JSON: " + err.Error())
	}
	return string(text)
}

// load is the reverse of store.
func (t *Tier) load(key, text string) (all []former) {
	var stored storedContents
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil
	}
	for _, one := range stored.Former[:min(len(stored.Former), rollout.MaxUndo)] {
		f := former{revision: one.Revision, why: one.Why}
		if f.why == "" {
			var err error
			if f.contents, err = t.Open(key, one.Sealed); err != nil {
				f.contents = nil
				f.why = "those in Redis are unusable: " + err.Error()
			}
		}
		all = append(all, f)
	}
	return all
}

// matching returns those of all that are before the revisions of a record.
func matching(all []former, r *rollout.Record) []former {
	after := append([]rollout.Digest{r.Stable}, r.Former...)
	for i, f := range all {
		if i >= len(r.Former) || f.revision != after[i] {
			return all[:i:i]
		}
	}
	return all
}
