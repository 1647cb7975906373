package rollouts

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/rollout"
)

// TestUndoWithoutContents: a node that does not have the contents of the revision before refuses to undo the
// newest one, and says why. If that fails its final bake, the log does.
func TestUndoWithoutContents(t *testing.T) {
	bubble(t, func(s *stage) {
		var log bytes.Buffer
		s.control.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
		s.sends("shop", "a=3")
		sleep(2 * time.Minute)
		s.is("shop", "Proving Bake")
		s.control.mu.Lock()
		s.control.keyNamed("shop").former = nil // as of a node that has taken over the key
		s.control.mu.Unlock()
		s.order(Undo, ErrNoContents)
		s.is("shop", "Proving Bake")
		for _, c := range s.fleet.clients {
			s.fleet.disconnect(c, true)
		}
		sleep(time.Minute)
		s.shows("shop", "3")
		s.control.mu.Lock()
		defer s.control.mu.Unlock()
		if !strings.Contains(log.String(), "clients keep it") {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// TestStoredContents: what a node stores of the revisions before is what the next owner of the key has of them,
// as far as that belongs to the revisions of the record. What it lacks, it knows the reason of.
func TestStoredContents(t *testing.T) {
	digests := make([]rollout.Digest, 4)
	for i := range digests {
		digests[i][0] = byte(i + 1)
	}
	contents := new(cache.Former)
	all := []former{{revision: digests[0], contents: contents}, {revision: digests[1], why: "too old"}, {revision: digests[2], contents: contents}}
	record := rollout.Record{Stable: digests[0], Former: digests[1:]}
	for _, tt := range []struct {
		name        string
		sealErr     error
		openErr     error
		size        int
		record      rollout.Record
		want        int      // how many belong to the record
		why         []string // a part of why the contents are missing; empty if they are not
		unparseable bool
	}{
		{name: "all", record: record, want: 3, why: []string{"", "too old", ""}},
		{name: "another revision is stable", record: rollout.Record{Stable: digests[3], Former: digests[:3]}},
		{name: "the one before is another", record: rollout.Record{Stable: digests[0], Former: digests[2:]}, want: 1, why: []string{""}},
		{name: "not sealed", sealErr: errors.New("secret"), record: record, want: 3, why: []string{"could not store them: secret", "too old", "could not store"}},
		{name: "not opened", openErr: errors.New("other key"), record: record, want: 3, why: []string{"unusable: other key", "too old", "unusable"}},
		{name: "too large", size: 3 << 20, record: record, want: 3, why: []string{"", "too old", "exceed 4 MiB"}},
		{name: "damaged", record: record, unparseable: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tier := &Tier{
				Seal: func(string, *cache.Former) ([]byte, error) { return make([]byte, tt.size+1), tt.sealErr },
				Open: func(string, []byte) (*cache.Former, error) { return contents, tt.openErr },
			}
			text := tier.store("shop", all)
			if tt.unparseable {
				text = text[1:]
			}
			got := matching(tier.load("shop", text), &tt.record)
			if len(got) != tt.want {
				t.Fatalf("%d of them: %+v", len(got), got)
			}
			for i, f := range got {
				if (f.why == "") != (tt.why[i] == "") || !strings.Contains(f.why, tt.why[i]) || (f.why == "") != (f.contents != nil) {
					t.Errorf("the contents before %v: %+v, expected %q", f.revision, f, tt.why[i])
				}
			}
		})
	}
}
