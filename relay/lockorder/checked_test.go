//go:build race

package lockorder_test

import (
	"strings"
	"sync"
	"testing"

	"xdsrelay/relay/lockorder"
)

type locks struct {
	stream, other lockorder.Mutex[lockorder.Stream]
	cache         lockorder.Mutex[lockorder.Cache]
	endpoints     lockorder.RWMutex[lockorder.Table]
	clusters      lockorder.RWMutex[lockorder.Table]
	peers         lockorder.Mutex[lockorder.Peers]
	peer          lockorder.Mutex[lockorder.Peer]
	leaf          lockorder.Mutex[lockorder.Leaf]
}

// TestOrder holds which locks a goroutine may lock while it holds others.
func TestOrder(t *testing.T) {
	tests := []struct {
		name string
		do   func(l *locks)
		want string // part of the panic; "" for none
	}{
		{"in order", func(l *locks) {
			l.stream.Lock()
			l.cache.Lock()
			l.endpoints.RLock()
			l.leaf.Lock()
			l.leaf.Unlock()
			l.endpoints.RUnlock()
			l.cache.Unlock()
			l.stream.Unlock()
		}, ""},
		{"one after the other", func(l *locks) {
			l.leaf.Lock()
			l.leaf.Unlock()
			l.stream.Lock()
			l.stream.Unlock()
		}, ""},
		{"unlocked in another order", func(l *locks) {
			l.stream.Lock()
			l.cache.Lock()
			l.stream.Unlock()
			l.leaf.Lock()
			l.cache.Unlock()
			l.leaf.Unlock()
		}, ""},
		{"the table of clusters after that of endpoints", func(l *locks) {
			l.endpoints.Lock()
			l.clusters.RLock()
			l.clusters.RUnlock()
			l.endpoints.Unlock()
		}, ""},
		{"a lock that does not wait", func(l *locks) {
			l.leaf.Lock()
			if l.stream.TryLock() {
				l.stream.Unlock()
			}
			l.leaf.Unlock()
		}, ""},
		{"locks of two lists", func(l *locks) {
			l.peer.Lock()
			l.stream.Lock()
			l.leaf.Lock()
			l.leaf.Unlock()
			l.stream.Unlock()
			l.peer.Unlock()
		}, ""},
		{"against the order of another list", func(l *locks) {
			l.peer.Lock()
			l.stream.Lock()
			l.peers.Lock()
		}, "lockorder.Peers"},
		{"a lock of another list after a leaf", func(l *locks) {
			l.leaf.Lock()
			l.peers.Lock()
		}, "lockorder.Peers"},
		{"against the order", func(l *locks) {
			l.leaf.Lock()
			l.cache.Lock()
		}, "locks a lock of the line lockorder.Cache, number 0 of it while it holds a lock of the line lockorder.Leaf"},
		{"two of a line", func(l *locks) {
			l.stream.Lock()
			l.other.Lock()
		}, "lockorder.Stream"},
		{"the table of endpoints after that of clusters", func(l *locks) {
			l.clusters.RLock()
			l.endpoints.RLock()
		}, "lockorder.Table"},
		{"a reader twice", func(l *locks) {
			l.endpoints.RLock()
			l.endpoints.RLock()
		}, "lockorder.Table"},
		{"after a lock that did not wait", func(l *locks) {
			l.leaf.TryLock()
			l.stream.Lock()
		}, "lockorder.Leaf"},
		{"used under the lock", func(l *locks) {
			l.clusters.Lock()
			l.clusters.MustHold(true)
			l.clusters.MustHold(false)
			l.clusters.Unlock()
		}, ""},
		{"used by a reader", func(l *locks) {
			l.clusters.RLock()
			l.clusters.MustHold(false)
			l.clusters.RUnlock()
		}, ""},
		{"changed by a reader", func(l *locks) {
			l.clusters.RLock()
			l.clusters.MustHold(true)
		}, "guards, and does not hold it; it has to hold it for writing: true"},
		{"used under another lock of the line", func(l *locks) {
			l.endpoints.Lock()
			l.clusters.MustHold(false)
		}, "lockorder.Table guards"},
		{"unlocked by another goroutine", func(l *locks) {
			var other sync.WaitGroup
			other.Go(func() {
				defer lockorder.Forget()
				l.stream.Lock()
			})
			other.Wait()
			l.stream.Unlock()
		}, "unlocks what it has not locked"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := new(locks)
			l.endpoints.Within(1)
			l.clusters.Within(2)
			if got := panicOf(func() { tc.do(l) }); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("panic %q, expected %q", got, tc.want)
			}
		})
	}
}

// panicOf runs f in a goroutine of its own and returns the text of its panic; "" for none.
func panicOf(f func()) (text string) {
	var ended sync.WaitGroup
	ended.Go(func() {
		defer lockorder.Forget()
		defer func() {
			if why := recover(); why != nil {
				text = why.(string)
			}
		}()
		f()
	})
	ended.Wait()
	return text
}

// BenchmarkLock measures what a check costs.
func BenchmarkLock(b *testing.B) {
	var m lockorder.Mutex[lockorder.Leaf]
	for b.Loop() {
		m.Lock()
		m.Unlock()
	}
}
