package cache

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"xdsrelay/relay/resource"
)

// fullState is an encoded full state of clusters: a name and a content alternate.
func fullState(t rapid.TB, version string, contents ...string) []byte {
	msg := &discoveryv3.DiscoveryResponse{TypeUrl: clusters.URL, VersionInfo: version, Nonce: "1"}
	for i := 0; i < len(contents); i += 2 {
		body, err := anypb.New(&clusterv3.Cluster{Name: contents[i], AltStatName: contents[i+1]})
		if err != nil {
			t.Fatal(err)
		}
		msg.Resources = append(msg.Resources, body)
	}
	b, err := proto.Marshal(msg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// answerFull applies an encoded full state.
func (w *world) answerFull(t rapid.TB, wire []byte) (changes int) {
	r, err := resource.DecodeSotW(wire, w.feed.Earlier)
	if err != nil {
		t.Fatal(err)
	}
	u := Update{Type: clusters, Resources: r.Resources, Full: true, Version: r.Version, Rejected: r.Invalid}
	for _, inv := range r.Invalid {
		u.Keep = append(u.Keep, inv.Name)
	}
	return w.feed.Apply(u)
}

// TestOrder: what clients get, and what a table counts, is the same with and without the order of the
// last full state, for any other order, additions, removals, changes and names that appear twice.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		percent := rapid.SampledFrom([]int{0, 50}).Draw(t, "removals that are not held back")
		var twins [2]*world
		var all, named [2]*client
		defer func() {
			for _, w := range twins {
				w.close()
			}
		}()
		for i := range twins {
			w := newWorld(t, Config{MaxRemovalPercent: percent})
			if w.cache.step = 1; i == 1 {
				w.cache.step = math.MaxInt32
			}
			twins[i], all[i], named[i] = w, w.client(clusters, true), w.client(clusters, false, "c1", "c3")
			w.feed.TakeDemand(true, false)
		}
		content := rapid.SampledFrom([]string{"x", "y"})
		var state []string // a name and a content alternate
		for i := range rapid.IntRange(0, 12).Draw(t, "resources") {
			state = append(state, fmt.Sprint("c", i), "x")
		}
		frozen := false
		for round := range 8 {
			for range rapid.IntRange(0, 2).Draw(t, "edits") {
				n := len(state) / 2
				i, j := 2*rapid.IntRange(0, max(n-1, 0)).Draw(t, "i"), 2*rapid.IntRange(0, max(n-1, 0)).Draw(t, "j")
				switch edit := rapid.SampledFrom([]string{"add", "remove", "move", "change", "twice", "reverse"}).Draw(t, "edit"); {
				case edit == "add":
					state = slices.Insert(state, min(i, len(state)), fmt.Sprint("c", rapid.IntRange(0, 15).Draw(t, "name")), content.Draw(t, "content"))
				case n == 0:
				case edit == "remove":
					state = slices.Delete(state, i, i+2)
				case edit == "move":
					one := slices.Clone(state[i : i+2])
					state = slices.Delete(state, i, i+2)
					state = slices.Insert(state, min(j, len(state)), one...)
				case edit == "change":
					state[i+1] = content.Draw(t, "content")
				case edit == "twice":
					state = slices.Insert(state, i, state[j:j+2]...)
				case edit == "reverse":
					slices.Reverse(state) // the contents become first
					for i := 0; i < len(state); i += 2 {
						state[i], state[i+1] = state[i+1], state[i]
					}
				}
			}
			event := rapid.SampledFrom([]string{"", "", "freeze", "one alone", "without the wildcard"}).Draw(t, "event")
			frozen = frozen != (event == "freeze")
			var changes [2]int
			for i, w := range twins {
				switch {
				case event == "freeze" && frozen:
					w.cache.Freeze(w.group.Key, Freeze{Reason: "test"})
				case event == "freeze":
					w.cache.Unfreeze(w.group.Key)
				case event == "one alone":
					w.feed.Apply(Update{Type: clusters, Resources: []*resource.Resource{res("c2", "alone")}, Removed: []string{"c4"}})
				case event == "without the wildcard":
					all[i].table.Replace(&all[i].w, false, nil)
					w.expireAll(all[i])
					all[i].table.Replace(&all[i].w, true, nil)
					w.feed.TakeDemand(true, false)
				}
				changes[i] = w.answerFull(t, fullState(t, fmt.Sprint(round), state...))
			}
			if changes[0] != changes[1] {
				t.Fatalf("%d changes with the order, %d without", changes[0], changes[1])
			}
			for _, of := range [][2]*client{all, named} {
				var seen [2]Seen
				var rs [2][]*resource.Resource
				for i, c := range of {
					seen[i], rs[i] = c.table.Content(&c.w)
					slices.SortFunc(rs[i], func(a, b *resource.Resource) int { return strings.Compare(a.Key, b.Key) })
				}
				if seen[0] != seen[1] || !reflect.DeepEqual(rs[0], rs[1]) {
					t.Fatalf("with the order clients see %+v %+v, without %+v %+v", seen[0], rs[0], seen[1], rs[1])
				}
			}
			if a, b := twins[0].feed.Held(clusters), twins[1].feed.Held(clusters); !reflect.DeepEqual(a, b) {
				t.Fatalf("with the order the stream has %v, without %v", a, b)
			}
			for _, w := range twins {
				for _, wrong := range w.cache.Check() {
					t.Fatal(wrong)
				}
			}
		}
	})
}

// TestOrderIsRemembered: the order of the last full state is there for the next one, until another node
// sends the content, nothing is subscribed any more, or it is too small.
func TestOrderIsRemembered(t *testing.T) {
	w := start(t, Config{})
	w.cache.step = 3
	c := w.client(clusters, true)
	w.feed.TakeDemand(true, false)
	expect := func(what string, names ...string) {
		t.Helper()
		var got []string
		earlier := w.feed.Earlier(clusters)
		for place := range earlier.Places {
			name := ""
			if r := earlier.At(place); r != nil {
				name = r.Name
			}
			got = append(got, name)
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s: %q, expected %q", what, got, names)
		}
	}
	w.answerFull(t, fullState(t, "1", "b", "1", "a", "1", "c", "1"))
	expect("at first", "b", "a", "c")
	again := &w.group.Table(clusters).core.streams[0].order
	was := &(*again)[0]
	w.answerFull(t, fullState(t, "2", "b", "1", "a", "2", "c", "1"))
	if expect("one has changed", "b", "a", "c"); &(*again)[0] != was {
		t.Error("the order is copied though it is the same")
	}
	w.answerFull(t, fullState(t, "3", "b", "1", "d", "1", "a", "2", "c", "1"))
	expect("one is new", "b", "d", "a", "c")
	w.answerFull(t, fullState(t, "4", "b", "1", "d", "1", "a", "2"))
	expect("one is removed", "b", "d", "a")
	w.remove(clusters, "d")
	expect("one is removed alone", "b", "", "a")
	w.answerFull(t, fullState(t, "5", "b", "1", "a", "2"))
	expect("too few")
	w.answerFull(t, fullState(t, "6", "a", "2", "b", "1", "c", "1"))
	w.feed.Apply(Update{Type: clusters, Mirror: &Mirror{}, Kind: Partial})
	expect("another node sends it")
	w.answerFull(t, fullState(t, "7", "a", "2", "b", "1", "c", "1"))
	expect("again", "a", "b", "c")
	c.table.Replace(&c.w, false, nil)
	w.expireAll(c)
	expect("no client subscribes")
}
