package head

import "testing"

// TestBoard: a bucket is read until its heads are known, and again when Redis has a stamp that no
// hint or write explains.
func TestBoard(t *testing.T) {
	b := newBoard()
	n := bucketOf("k")
	now := func(stamp string) stamps { return stamps{all: stamp, buckets: map[int]string{n: stamp}} }
	expect := func(what, stamp string, changed bool) {
		t.Helper()
		if got := len(b.changed(now(stamp))) > 0; got != changed {
			t.Errorf("%s: changed: %t", what, got)
		}
	}
	if !b.add("k") || b.add("k") {
		t.Error("the first key of a bucket is not known as such")
	}
	expect("nothing was read", "", true)
	b.markKnown(n, "1")
	expect("read", "1", false)
	expect("another stamp", "2", true)
	expect("no stamp", "", true)
	b.explain(n, "0", "2")
	expect("explained from a stamp that was not known", "2", true)
	b.explain(n, "1", "2")
	expect("explained", "2", false)
	b.any = "2"
	b.explain(n, "2", "2a")
	if b.any != "" {
		t.Error("a stamp was replaced, and that of all buckets is taken for known")
	}
	b.markKnown(n, "2")
	b.forget("k")
	expect("a key could not be read", "2", true)
	b.explain(n, "2", "3")
	expect("explained while it was not known", "3", true)
	b.markKnown(n, "3")
	b.any = "3"
	b.add("x") // in another bucket
	if b.any != "" {
		t.Error("a bucket is new, and the stamp of all is taken for known")
	}
	if !b.remove("k") || b.remove("k") || len(b.own) != 1 {
		t.Error("the last key of a bucket is not known as such")
	}
	b.markKnown(n, "4")
	b.explain(n, "4", "5")
	if b.own[n] != nil {
		t.Error("a bucket without keys came back")
	}
}
