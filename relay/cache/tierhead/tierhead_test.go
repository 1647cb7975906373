package tierhead

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

func digest(n int) (d resource.Digest) {
	if n > 0 {
		d = resource.NamesDigest([]string{string(rune('a' + n))})
	}
	return d
}

// TestStandings: K12: content that was before that of the head is behind; content that follows it, and
// content whose own node wrote the head, is not. A head that follows one which was reached is newer,
// even if the content was the same once.
func TestStandings(t *testing.T) {
	at := time.Unix(1, 0)
	head := func(n int) func(*Comparison) {
		return func(c *Comparison) { c.Observe(Head{Digest: digest(n), Version: "v"}, at) }
	}
	own := func(n int) func(*Comparison) {
		return func(c *Comparison) { c.Observe(Head{Digest: digest(n), Own: true}, at) }
	}
	content := func(n int) func(*Comparison) { return func(c *Comparison) { c.Content(digest(n), true) } }
	for _, tt := range []struct {
		name  string
		steps []func(*Comparison)
		want  Standing
	}{
		{name: "nothing", want: NoHead},
		{name: "no head", steps: []func(*Comparison){content(1)}, want: NoHead},
		{name: "a head before any content", steps: []func(*Comparison){head(1)}, want: Behind},
		{name: "a head of nothing before any content", steps: []func(*Comparison){head(0)}, want: At},
		{name: "the content of the head", steps: []func(*Comparison){head(1), content(1)}, want: At},
		{name: "the next content", steps: []func(*Comparison){head(1), content(1), content(2)}, want: Ahead},
		{name: "the head of the former content", steps: []func(*Comparison){content(1), content(2), head(1)}, want: Ahead},
		{name: "the head of empty content before", steps: []func(*Comparison){content(1), content(0), content(2), head(0)}, want: Ahead},
		{name: "another head", steps: []func(*Comparison){content(1), head(2)}, want: Behind},
		{name: "another head after a head", steps: []func(*Comparison){content(1), head(2), head(3)}, want: Overtaken},
		{name: "new content after that", steps: []func(*Comparison){content(1), head(2), head(3), content(4)}, want: Behind},
		{name: "another head after one that was reached", steps: []func(*Comparison){content(1), head(1), head(2)}, want: Left},
		{name: "a former content after a head that was reached", steps: []func(*Comparison){content(1), content(2), head(2), head(1)}, want: Left},
		{name: "other content after that", steps: []func(*Comparison){content(1), head(1), head(2), content(3)}, want: Behind},
		{name: "its own head", steps: []func(*Comparison){content(1), own(1), content(2)}, want: Own},
		{name: "another head after its own", steps: []func(*Comparison){content(1), own(1), head(2)}, want: Left},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c Comparison
			for _, step := range tt.steps {
				step(&c)
			}
			if c.Standing() != tt.want {
				t.Errorf("standing %d, expected %d", c.Standing(), tt.want)
			}
			if wait := c.Awaits("v"); wait != tt.want.Behind() {
				t.Errorf("it awaits the version: %t", wait)
			}
		})
	}
	var none *Comparison
	if _, known := none.Head(); known || none.Standing() != NoHead || none.Reached() || none.Awaits("") || !none.Written().IsZero() || !none.Since().IsZero() || none.Now() != (resource.Digest{}) {
		t.Error("a table that is compared with no head has one")
	}
}

// TestComparison: K12: whatever arrives in whatever order, content that equals the head is never
// behind, and content is ahead only of a head that describes what it was before.
func TestComparison(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Comparison
		var former []int // since the content was known for the first time
		content, head, reached, replaced := 0, -1, false, false
		now := time.Unix(1e9, 0)
		digests := rapid.IntRange(0, 4)
		t.Repeat(map[string]func(*rapid.T){
			"content": func(t *rapid.T) {
				n := digests.Draw(t, "content")
				if news := c.Content(digest(n), true); news != (n != content) {
					t.Fatalf("content %d after %d is news: %t", n, content, news)
				}
				if n != content {
					former, content, reached, replaced = append(former, content), n, false, false
				}
			},
			"head": func(t *rapid.T) {
				now = now.Add(time.Second)
				before := head
				if head = digests.Draw(t, "head"); head != before {
					replaced = before >= 0
				}
				c.Observe(Head{Digest: digest(head), At: now.Add(time.Duration(rapid.IntRange(-2, 2).Draw(t, "clock")) * time.Second)}, now)
			},
			"": func(t *rapid.T) {
				reached = reached || head == content
				switch got := c.Standing(); {
				case (got == NoHead) != (head < 0):
					t.Fatalf("there is head %d, and the standing is %d", head, got)
				case head >= 0 && (got == At) != (head == content), c.Reached() != (head == content):
					t.Fatalf("the content is %d and the head %d, and the standing is %d", content, head, got)
				case got == Ahead && (reached || !slices.Contains(former, head)):
					t.Fatalf("it is ahead of head %d, which is not among %d", head, former)
				case got.Behind() && (got == Left) != reached, got == Overtaken && !replaced, got == Behind && replaced:
					t.Fatalf("the standing is %d; a head was reached: %t, and another one replaced: %t", got, reached, replaced)
				}
				if at := c.Written(); at.After(now) || at.IsZero() == c.Reached() {
					t.Fatalf("it was written at %v, now is %v, and it is reached: %t", at, now, c.Reached())
				}
			},
		})
	})
}
