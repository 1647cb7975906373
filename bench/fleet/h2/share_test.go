package h2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// alike are messages that agree in most: versions of one text, each with a tail
// of its own.
func alike(n, size int, change func(i int) (at int), tail func(i int) string) [][]byte {
	all := make([][]byte, n)
	text := pattern(size)
	for i := range all {
		m := bytes.Clone(text)
		if at := change(i); at >= 0 {
			copy(m[at%size:], fmt.Sprintf("changed %d", at))
		}
		all[i] = append(m, tail(i)...)
	}
	return all
}

// TestShare holds that messages arrive as they were sent, whichever others were
// on their way at the same time, and in whatever pieces.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &share{}
		size := rapid.IntRange(shareFrom, 5*shareFrom).Draw(t, "size")
		messages := alike(rapid.IntRange(1, 12).Draw(t, "messages"), size,
			func(int) int { return rapid.IntRange(-1, size-1).Draw(t, "change") },
			func(int) string { return rapid.StringN(0, 5, 5).Draw(t, "tail") })
		parts := make([]partial, len(messages))
		left := len(messages)
		for left > 0 {
			i := rapid.IntRange(0, len(messages)-1).Draw(t, "next")
			p, m := &parts[i], messages[i]
			at := p.size()
			if at == len(m) {
				continue
			}
			n := min(len(m)-at, rapid.IntRange(1, 20_000).Draw(t, "piece"))
			if p.add(s, m[at:at+n], len(m)); p.size() != at+n {
				t.Fatalf("message %d has %d bytes after %d and %d", i, p.size(), at, n)
			}
			if p.size() < len(m) {
				continue
			}
			left--
			if got := finished(p); !bytes.Equal(got.AppendFrom(nil, 0), m) {
				t.Fatalf("message %d of %d bytes arrived different", i, len(m))
			} else if at := rapid.IntRange(0, len(m)).Draw(t, "from"); !bytes.Equal(got.AppendFrom(nil, at), m[at:]) {
				t.Fatalf("message %d differs from %d on", i, at)
			}
		}
	})
}

func finished(p *partial) Message {
	m := Message{Chain: p.chain, Shared: p.at}
	if p.own != nil {
		m.Own = *p.own
	}
	return m
}

// TestShareOnce holds that what many are in the middle of is there once, and
// that the end of it is known as the same to all.
func TestShareOnce(t *testing.T) {
	const clients, size = 200, 100_000
	s := &share{}
	messages := alike(clients, size, func(int) int { return -1 }, func(i int) string { return fmt.Sprintf("nonce %d", i) })
	parts := make([]partial, clients)
	for at := 0; at < size+10; at += 10_000 {
		for i, m := range messages {
			parts[i].add(s, m[at:min(at+10_000, len(m))], len(m))
		}
	}
	for i := range parts {
		if !bytes.Equal(new(finished(&parts[i])).AppendFrom(nil, 0), messages[i]) {
			t.Fatalf("message %d differs", i)
		}
		if parts[i].chain != parts[0].chain || parts[i].at < size {
			t.Fatalf("message %d shares %d bytes of another chain, expected %d of one", i, parts[i].at, size)
		}
	}
	if got := s.size.Load(); got > size+100 {
		t.Errorf("%d bytes are kept for %d clients, expected %d", got, clients, size)
	}
}

// TestShareForgets holds that old contents do not stay for ever.
func TestShareForgets(t *testing.T) {
	s := &share{}
	for i := range 200 {
		m := pattern(1 << 20)
		copy(m[1000:], fmt.Sprintf("version %d", i))
		var p partial
		for len(m) > p.size() {
			p.add(s, m[p.size():min(p.size()+maxFrame, len(m))], len(m))
		}
		if !bytes.Equal(new(finished(&p)).AppendFrom(nil, 0), m) {
			t.Fatalf("message %d differs", i)
		}
		if got := s.size.Load(); got > shareLimit+2<<20 {
			t.Fatalf("%d bytes are kept", got)
		}
	}
}

// TestShareTogether holds that connections may share at the same time.
func TestShareTogether(t *testing.T) {
	s := &share{}
	messages := alike(8, 200_000, func(i int) int { return i % 3 * 70_000 }, func(i int) string { return fmt.Sprint(i) })
	var all sync.WaitGroup
	for _, m := range messages {
		all.Go(func() {
			for range 5 {
				var p partial
				for len(m) > p.size() {
					p.add(s, m[p.size():min(p.size()+1+rand.N(maxFrame), len(m))], len(m))
				}
				if !bytes.Equal(new(finished(&p)).AppendFrom(nil, 0), m) {
					t.Error("a message differs")
				}
				p.drop()
			}
		})
	}
	all.Wait()
}
