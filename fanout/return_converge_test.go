package fanout

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// returned is a delta client that returns with resources to a node that knows nothing.
type returned struct {
	*xdstest.Stream
	has     map[string]string // versions by name
	pending []*xdstest.Frame  // without an answer
}

// read takes over what has arrived.
func (c *returned) read(t xdstest.TB, url string) {
	for {
		f, err := c.Next(short, func(f *xdstest.Frame) bool { return f.TypeURL == url })
		if errors.Is(err, xdstest.ErrNothing) {
			return
		}
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		for _, r := range f.Resources {
			c.has[r.Name] = r.Version
		}
		for _, n := range f.Removed {
			delete(c.has, n)
		}
		c.pending = append(c.pending, f)
	}
}

func (c *returned) ack() {
	for _, f := range c.pending {
		c.Ack(f)
	}
	c.pending = nil
}

// TestReturnsConverge: B37, K14: whatever a delta client returns with, and whatever its node takes over from
// other nodes while the control plane is away, in any order with the client's answers: once the control
// plane has sent everything, the client has exactly that.
func TestReturnsConverge(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			url, make1 := eds, endpoints
			if rapid.Bool().Draw(t, "wildcard") {
				url, make1 = cds, cluster
			}
			content := func(label string) (there map[string]int) {
				there = make(map[string]int)
				for _, n := range names {
					if v := rapid.IntRange(0, 3).Draw(t, label+" "+n); v > 0 {
						there[n] = v
					}
				}
				return there
			}
			w := newWorld(t, func(c *Config) { c.AckTimeout = 10 * short }).listen()
			w.open(true).Subscribe(rds, "r") // without it there is no feed
			w.asked(rds, "r")
			w.origin().Down(errors.New("gone"))

			c := returned{Stream: w.open(true), has: make(map[string]string)}
			for n, v := range content("held") {
				c.has[n] = version(t, make1(n, v))
			}
			wants := names
			if url == cds {
				wants = nil
			}
			c.Resume(url, "", maps.Clone(c.has), wants...)
			c.read(t, url)
			up := false
			for i := range rapid.IntRange(1, 10).Draw(t, "steps") {
				switch rapid.SampledFrom([]string{"elsewhere", "elsewhere", "change", "change", "up", "down", "ack", "ack", "wait"}).Draw(t, "step") {
				case "elsewhere":
					k := cache.Snapshot{Type: resource.TypeOf(url), Wildcard: url == cds, Streams: []cache.SnapshotStream{{}}, AsOf: time.Now()}
					for n, v := range content(fmt.Sprint("elsewhere ", i)) {
						k.Resources = append(k.Resources, cache.SnapshotResource{Resource: resources(t, make1(n, v))[0], Streams: 1})
					}
					w.cache.Groups()[0].RestoreFrom(k)
				case "change":
					if up {
						var some []proto.Message
						for n, v := range content(fmt.Sprint("changed ", i)) {
							some = append(some, make1(n, v))
						}
						w.change(url, nil, some...)
					}
				case "up":
					w.origin().Up()
					w.origin().TakeDemand(true, true)
					up = true
				case "down":
					w.origin().Down(errors.New("gone again"))
					up = false
				case "ack":
					c.ack()
				case "wait":
					time.Sleep(10 * short) //nolint:forbidigo // virtual time
				}
				c.read(t, url)
			}
			w.origin().Up()
			w.origin().TakeDemand(true, true)
			var there []proto.Message
			var gone []string
			want, last := make(map[string]string), content("in the end")
			for _, n := range names {
				if v := last[n]; v > 0 {
					there, want[n] = append(there, make1(n, v)), version(t, make1(n, v))
				} else {
					gone = append(gone, n)
				}
			}
			w.change(url, gone, there...)
			for range 5 { // removals wait for answers
				c.ack()
				c.read(t, url)
			}
			if !maps.Equal(c.has, want) {
				t.Fatalf("the client has %v, expected %v\n%s", c.has, want, c.Transcript())
			}
		})
	})
}
