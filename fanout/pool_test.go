package fanout

import (
	"testing"

	"xdsrelay/relay/cache"
)

type nobody struct{}

func (nobody) Flush() {}

// TestPoolLetsGo: a pool that has flushed clients does not retain them, however many there were, so
// that ended streams are freed.
func TestPoolLetsGo(t *testing.T) {
	p := NewPool(1)
	p.Close()
	p.closed = false
	one, two := []cache.Client{nobody{}}, []cache.Client{nobody{}}
	p.clients = append(p.clients, one, two)
	all := p.clients
	for range all {
		if _, ok := p.next(); !ok {
			t.Fatal("the pool is closed")
		}
	}
	for i, chunk := range all {
		if chunk != nil {
			t.Errorf("chunk %d is still there", i)
		}
	}
}
