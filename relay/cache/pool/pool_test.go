package pool_test

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"xdsrelay/relay/cache/pool"
	"xdsrelay/relay/resource"
)

func made(name, body, version string) *resource.Resource {
	return resource.New(resource.Resource{Name: name, Body: []byte(body), Version: version})
}

// TestShare: what is equal is held once, as long as somebody holds it.
func TestShare(t *testing.T) {
	var p pool.Pool
	before := made("a", "body", "1")
	if p.Share(before) != before || p.Len() != 0 {
		t.Fatal("a pool that is not in use takes note")
	}
	p.Use()
	first := made("a", "body", "1")
	if p.Share(first) != first {
		t.Fatal("something was held already")
	}
	if p.Share(made("a", "body", "1")) != first {
		t.Error("an equal resource is kept a second time")
	}
	for _, other := range []*resource.Resource{made("b", "body", "1"), made("a", "other", "1")} {
		if p.Share(other) != other {
			t.Error("a different resource is taken for equal")
		}
	}
	runtime.KeepAlive(first)
}

// TestCollected: the pool keeps nothing alive, and its own memory returns.
func TestCollected(t *testing.T) {
	var p pool.Pool
	p.Use()
	const many = 50_000
	kept := make([]*resource.Resource, many)
	for i := range kept {
		kept[i] = p.Share(made(strconv.Itoa(i), "body", "1"))
	}
	if n := p.Len(); n != many {
		t.Fatalf("%d of %d are known", n, many)
	}
	kept = slices.Clone(kept[:100])
	runtime.GC()
	runtime.GC()
	more := make([]*resource.Resource, many)
	for i := range more {
		more[i] = p.Share(made("more"+strconv.Itoa(i), "body", "1"))
	}
	if n := p.Len(); n > many*3/2 {
		t.Errorf("%d are known, and %d are there", n, many+len(kept))
	}
	for i, r := range kept {
		if p.Share(made(strconv.Itoa(i), "body", "1")) != r {
			t.Errorf("resource %d is there, and not known any more", i)
		}
	}
	runtime.KeepAlive(more)
}

// TestManyAtOnce: goroutines that share the same resources end with one of each.
func TestManyAtOnce(t *testing.T) {
	var p pool.Pool
	p.Use()
	const goroutines, many = 8, 500
	var got [goroutines][many]*resource.Resource
	var wg sync.WaitGroup
	for g := range got {
		wg.Go(func() {
			for i := range many {
				got[g][i] = p.Share(made(strconv.Itoa(i), "body", "1"))
			}
		})
	}
	wg.Wait()
	for g := range got {
		if got[g] != got[0] {
			t.Errorf("goroutine %d has others than the first", g)
		}
	}
}
