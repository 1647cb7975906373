package ops

import (
	"fmt"
	"testing"
	"time"
)

// TestRejections: reasons are counted over all nodes by type and message, with the number
// of clients and of keys, each key once; what clients make up is bounded.
func TestRejections(t *testing.T) {
	now := time.Now()
	client := func(i, key int, message string) *Client {
		return &Client{Name: fmt.Sprint("c", i), Key: fmt.Sprint("key-", key), Types: []Type{{URL: "u", Name: "LDS", Nack: &Nack{At: now.Add(-time.Duration(i) * time.Second), Message: message, Version: fmt.Sprint(i)}}}}
	}
	var a, b Sums
	for i := range 20 {
		a.rejected(client(i, i/2, "no such filter"))
		b.rejected(client(20+i, i/2, "no such filter"))
	}
	b.rejected(client(50, 0, "out of memory"))
	sum := SumUp([]Sums{a, b}, nil)
	if len(sum.Rejections) != 2 {
		t.Fatalf("%d reasons: %+v", len(sum.Rejections), sum.Rejections)
	}
	first := sum.Rejections[0]
	if got, want := first.String(), "LDS rejected by 40 clients of 10 keys, such as client c39: no such filter"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	if got, want := sum.Rejections[1].String(), "LDS rejected by 1 client of 1 key, such as client c50: out of memory"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	for _, r := range sum.Rejections {
		if r.Hashes != nil {
			t.Errorf("%d hashes are shown", len(r.Hashes))
		}
	}
	var many Sums
	for i := range 10 * mostRejected {
		many.rejected(client(i, i, "all"))
		many.rejected(client(i, i, fmt.Sprint(i)))
	}
	if n := len(many.Rejections); n != mostCounted {
		t.Errorf("%d reasons are counted", n)
	}
	if r := many.Rejections[0]; len(r.Hashes) != mostRejected || !r.MoreKeys || r.Clients != 10*mostRejected {
		t.Errorf("%d keys and %d clients, more: %t", len(r.Hashes), r.Clients, r.MoreKeys)
	}
}
