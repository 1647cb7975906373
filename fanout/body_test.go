package fanout

import (
	"testing"

	"xdsrelay/relay/cache"
)

// TestBodySize: the names of a body count towards the cache, since a client can subscribe to ever
// new ones for which nothing is encoded.
func TestBodySize(t *testing.T) {
	names := func(n string) *cache.Names { return cache.NewNames([]string{n, n + "x"}) } // 2n+33 bytes
	b := &body{
		data: make([]byte, 1, 1000), endpoints: names("a"), withheld: names("aa"), unrefreshed: names("aaa"),
		unknown: names("aaaa"), unjudged: names("aaaaa"),
	}
	if want := int64(1000 + 5*33 + 2*(1+2+3+4+5)); b.size() != want {
		t.Errorf("the size is %d, expected %d", b.size(), want)
	}
	if b := (&body{}); b.size() != 0 {
		t.Errorf("that of nothing is %d", b.size())
	}
}
