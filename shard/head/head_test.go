package head

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/cache/tierhead"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
)

// TestHeadForm: a head is unchanged after it was encoded and decoded, and anything else is
// rejected.
func TestHeadForm(t *testing.T) {
	h := Head{Epoch: 1 << 52, Generation: 3, Digest: resource.Digest{1, 15: 255}, Version: "a b\n\"c", Owner: "node}1", At: time.UnixMilli(1234567890123)}
	if got, err := decode(h.encode()); got != h || err != nil {
		t.Errorf("%+v became %+v, %v", h, got, err)
	}
	const old = `4503599627370496 3 {"version":"a b\n\"c","digest":"010000000000000000000000000000ff","owner":"node}1","at":1234567890123}`
	if h.encode() != old {
		t.Errorf("without a trace it is %s, expected what it was before there were traces", h.encode())
	}
	h.Trace = aTrace
	if got, err := decode(h.encode()); got != h || err != nil {
		t.Errorf("%+v became %+v, %v", h, got, err)
	}
	newer := strings.TrimSuffix(h.encode(), "}") + `,"what comes later":[1]}`
	if got, err := decode(newer); got != h || err != nil {
		t.Errorf("%s became %+v, %v", newer, got, err)
	}
	bad := h
	bad.Trace, h.Trace = "no trace", ""
	if got, err := decode(bad.encode()); got != h || err != nil {
		t.Errorf("a trace that is none: %+v, %v", got, err)
	}
	if got, err := decodeLegacyHint(`{"key":"k\u0000","type":"t","head":"h"}`); got.Key != "k\x00" || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", "1", "1 2", "1 2 ", "1 2 {}", "x 2 {}", "1 -2 {}", "9007199254740992 1 {}", h.encode() + "x",
		"1 1 " + `{"digest":"00"}`, "1 1 " + `{"digest":"` + strings.Repeat("0", 64) + `"}`,
	} {
		if got, err := decode(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

// FuzzHead: any value in Redis or in a hint is rejected or decoded, and a decoded one stays the
// same.
func FuzzHead(f *testing.F) {
	h := Head{Epoch: 1, Generation: 2, Version: "v", Owner: "n", At: time.UnixMilli(1)}
	f.Add(h.encode())
	f.Add(`{"key":"k","type":"t","head":"1 1 {}"}`)
	f.Add(`a b ["k"]`)
	h.Trace = aTrace
	f.Add(h.encode())
	h.Trace = strings.Repeat("0", len(aTrace))
	f.Add(h.encode())
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := decode(text); err == nil {
			if h.Trace != "" && !trace.Valid(h.Trace) {
				t.Errorf("%q is no trace context", h.Trace)
			}
			if again, err := decode(h.encode()); err != nil || !again.At.Equal(h.At) || again.Epoch != h.Epoch || again.Digest != h.Digest || again.Trace != h.Trace {
				t.Errorf("%+v became %+v, %v", h, again, err)
			}
		}
		_, _ = decodeLegacyHint(text)
		if c, err := decodeChange(text); err == nil && (len(c.from) > maxStamp || len(c.to) > maxStamp) {
			t.Errorf("%q has stamps that are too long", text)
		}
	})
}

const aTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestDue: the heads to write for a table, by the existing heads.
func TestDue(t *testing.T) {
	now := time.Now()
	at := func(digest byte, updates uint64) cache.TableDigest {
		return cache.TableDigest{Type: clusters, Digest: resource.Digest{digest}, Version: string('0' + digest), Updates: updates, Known: true}
	}
	of := func(e cache.TableDigest, epoch, generation uint64) map[string]Head {
		return map[string]Head{clusters.URL: {Epoch: epoch, Generation: generation, Digest: e.Digest, Version: e.Version}}
	}
	overtaken := func(e cache.TableDigest) cache.TableDigest {
		e.Standing = tierhead.Overtaken
		return e
	}
	const answers = 5 // when this node became the owner
	for name, c := range map[string]struct {
		before     map[string]Head
		is         cache.TableDigest
		after      time.Duration
		generation uint64 // of the head to write; 0: none
	}{
		"the first head":                       {nil, at(1, answers+1), 0, 1},
		"none, and perhaps old content":        {nil, at(1, answers), 0, 0},
		"none, and the time is over":           {nil, at(1, answers), 2 * time.Second, 1},
		"nothing is known of the type":         {nil, at(0, 0), never, 0},
		"the same as before":                   {of(at(1, 0), 3, 7), at(1, answers), 0, 7},
		"older than before, perhaps":           {of(at(2, 0), 3, 7), at(1, answers), 0, 0},
		"older, and the time is over":          {of(at(2, 0), 3, 7), at(1, answers), 2 * time.Second, 8},
		"another, since the origin has spoken": {of(at(2, 0), 3, 7), at(1, answers+1), 0, 8},
		"older, as another node was faster":    {of(at(2, 0), 3, 7), overtaken(at(1, answers+1)), 0, 0},
		"the same for too long":                {of(at(2, 0), 3, 7), overtaken(at(1, answers+1)), overtakenFor, 8},
	} {
		o := &owned{since: now, answers: map[string]uint64{clusters.URL: answers}}
		o.claimed(keyState{epoch: 9, heads: c.before}, nil)
		due := func(e cache.TableDigest) Head {
			return o.due([]cache.TableDigest{e}, "n", time.Second, now.Add(c.after))[clusters.URL]
		}
		h := due(c.is)
		if h.Generation != c.generation || h.Generation > 0 && (h.Epoch != 9 || !h.holds(c.is) || h.Owner != "n") || o.deferred != (c.generation == 0 && c.is.Updates > 0) {
			t.Errorf("%s: %+v, deferred: %t", name, h, o.deferred)
			continue
		}
		if h.Generation == 0 {
			continue
		}
		o.writes(map[string]Head{clusters.URL: h})
		if again := due(c.is); again != h {
			t.Errorf("%s: nobody knows whether it was written, and %+v is due", name, again)
		}
		if next := due(at(9, answers+2)); next.Generation != h.Generation+1 {
			t.Errorf("%s: then something else is due: %+v", name, next)
		}
		o.wrote(map[string]Head{clusters.URL: h}, now)
		if again := due(c.is); again.Generation > 0 {
			t.Errorf("%s: written, and due again: %+v", name, again)
		}
		o.rewriteAll(keyState{epoch: 9, heads: c.before})
		if again := due(c.is); again != h {
			t.Errorf("%s: lost, and %+v is due", name, again)
		}
	}
}

// TestLost: a key that others claim, too, is claimed again after a growing but bounded pause.
func TestLost(t *testing.T) {
	now, last := time.Now(), time.Duration(0)
	o := &owned{pauses: claimPauses()}
	for range 20 {
		o.claimed(keyState{epoch: 1}, nil)
		if lost, missing := o.differs(keyState{epoch: 2}, now); !lost || missing {
			t.Fatalf("lost: %t, missing: %t", lost, missing)
		}
		o.lose(now)
		last = o.after.Sub(now)
		if last > longestPause*3/2 {
			t.Fatalf("a pause of %v", last)
		}
		if _, missing := o.differs(keyState{}, o.after.Add(-1)); missing {
			t.Fatal("claimed again before")
		}
		if _, missing := o.differs(keyState{}, o.after); !missing {
			t.Fatal("not claimed again")
		}
	}
	if last < longestPause/2 {
		t.Errorf("the last pause was %v", last)
	}
	o.claimed(keyState{epoch: 3}, nil)
	o.wrote(nil, now)
	if o.lose(now); o.after.Sub(now) > 2*time.Second {
		t.Errorf("after a write: a pause of %v", o.after.Sub(now))
	}
	o.claimed(keyState{epoch: 4}, nil)
	o.writes(map[string]Head{"t": {Epoch: 4, Generation: 1}})
	o.wrote(o.heads, now)
	if _, missing := o.differs(keyState{epoch: 4, heads: map[string]Head{"t": {Epoch: 3, Generation: 7}}}, now); !missing {
		t.Error("what Redis had before the last write counts for that")
	}
	there := keyState{epoch: 4, heads: o.heads}
	for after, want := range map[time.Duration]bool{0: false, keptFor / 2: true} { // otherwise it would expire
		if lost, missing := o.differs(there, now.Add(after)); lost || missing != want {
			t.Errorf("%v after a write: lost: %t, missing: %t", after, lost, missing)
		}
	}
}

// TestAnswersAfterALoss: the result of a write of a lost claim has no effect: the next attempt is
// neither later nor sooner.
func TestAnswersAfterALoss(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	n := newNode(t, "n", openStore(t, server.URL(), time.Minute), never, never)
	k := n.key("k")
	k.own()
	xdstest.Eventually(t, "the key to be claimed", func() bool { _, ok := n.Epoch("k"); return ok })
	n.mu.Lock()
	o := n.owned["k"]
	epoch := o.epoch
	o.lose(time.Now().Add(time.Hour))
	after, pauses := o.after, o.pauses
	n.mu.Unlock()
	for _, is := range []uint64{epoch, epoch + 1} {
		n.onWritten(o, epoch, is, map[string]Head{clusters.URL: {Epoch: epoch, Generation: 1}})
		n.mu.Lock()
		if o.pauses != pauses || !o.after.Equal(after) || o.epoch != 0 {
			t.Errorf("pauses %+v, to be claimed after %v, expected %+v and %v", o.pauses, o.after, pauses, after)
		}
		n.mu.Unlock()
		if epoch, ok := n.Epoch("k"); ok {
			t.Errorf("the key counts as claimed in %d", epoch)
		}
	}
}
