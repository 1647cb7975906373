package bodycache

import (
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fill(c *Cache[string, string], k, v string) *string {
	return c.Fill(k, c.Slot(k), func() (*string, int64) { return &v, int64(len(v)) })
}

// TestBuiltOnce: among concurrent callers one builds, and all get its value.
func TestBuiltOnce(t *testing.T) {
	c := New[string, string](1 << 20)
	got := make([]*string, 50)
	var all sync.WaitGroup
	for i := range got {
		all.Go(func() { got[i] = fill(c, "k", "v") })
	}
	all.Wait()
	for _, v := range got {
		if v != got[0] || *v != "v" {
			t.Fatal("there are two values for one key")
		}
	}
	if c.Built() != 1 || c.Shared() != 49 || c.Slot("k").Value() != got[0] {
		t.Errorf("built %d, shared %d", c.Built(), c.Shared())
	}
	if c.Slot("other").Value() != nil {
		t.Error("a value that nobody built")
	}
}

// TestBounded: the least recently used values are evicted first. A value larger than the bound is
// returned and not kept.
func TestBounded(t *testing.T) {
	v := strings.Repeat("x", 1000)
	c := New[string, string](3 * (1000 + slotSize))
	for _, k := range []string{"a", "b", "c"} {
		fill(c, k, v)
	}
	fill(c, "a", v) // used again
	fill(c, "d", v)
	for k, kept := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := c.recent.Contains(k); got != kept {
			t.Errorf("%s is kept: %t", k, got)
		}
	}
	if c.bytes > c.limit {
		t.Errorf("%d bytes, more than %d", c.bytes, c.limit)
	}
	huge := strings.Repeat("x", 10_000)
	if got := fill(c, "huge", huge); *got != huge {
		t.Error("the huge value is lost")
	}
	if c.recent.Len() != 0 || c.bytes != 0 {
		t.Errorf("%d values of %d bytes are kept beside none", c.recent.Len(), c.bytes)
	}
}

// TestEvictedWhileBuilt: a value that is evicted before it is built counts for nothing.
func TestEvictedWhileBuilt(t *testing.T) {
	c := New[string, string](slotSize)
	early := c.Slot("early")
	fill(c, "late", "v")
	v := "v"
	c.Fill("early", early, func() (*string, int64) { return &v, 1 })
	if *early.Value() != "v" || c.recent.Len() != 0 || c.bytes != 0 {
		t.Errorf("%d slots, %d bytes", c.recent.Len(), c.bytes)
	}
}

// TestGrow: bytes that are added later count until the value is evicted.
func TestGrow(t *testing.T) {
	c := New[string, string](2*slotSize + 1000)
	fill(c, "old", "v")
	fill(c, "new", "v")
	grown := c.Slot("new")
	c.Grow("new", grown, 900)
	if !c.recent.Contains("old") || c.bytes != 2*slotSize+902 {
		t.Errorf("%d slots of %d bytes, though there is room", c.recent.Len(), c.bytes)
	}
	c.Grow("new", grown, 100)
	if c.recent.Contains("old") || c.bytes != slotSize+1001 {
		t.Errorf("%d slots of %d bytes: one too many", c.recent.Len(), c.bytes)
	}
	c.Grow("new", grown, slotSize)
	c.Grow("new", grown, 1)
	if c.recent.Len() != 0 || c.bytes != 0 {
		t.Errorf("%d slots of %d bytes after all were too large", c.recent.Len(), c.bytes)
	}
}
