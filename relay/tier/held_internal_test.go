package tier

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// TestHeldOfAbsent: K12: names that a node knows not to exist are passed on, also to a node that has
// the same content and does not know these names: a third node may still hold them.
func TestHeldOfAbsent(t *testing.T) {
	now := time.Now()
	endpoints, err := anypb.New(&endpointv3.ClusterLoadAssignment{ClusterName: "a"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := proto.Marshal(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	of := func(absent ...string) cache.Snapshot {
		k := cache.Snapshot{Type: resource.TypeOf(resource.EndpointURL), Streams: []cache.SnapshotStream{{}}, AsOf: now, Absent: absent}
		k.Resources = []cache.SnapshotResource{{Resource: resource.New(resource.Resource{Name: "a", Body: body}), Streams: 1}}
		return k
	}
	asked := func(own cache.Snapshot) url.Values {
		u, err := url.Parse(heldQuestion("key", []cache.Snapshot{own}))
		if err != nil {
			t.Fatal(err)
		}
		return u.Query()
	}
	known := of("b", "c")
	text, err := json.Marshal(holdingOf("key", []cache.Snapshot{known}, asked(of()), nil))
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := readHeld(text, "key")
	if err != nil || len(all) != 1 || !slices.Equal(all[0].Absent, known.Absent) {
		t.Errorf("%+v, %v; expected %q to be absent", all, err, known.Absent)
	}
	known.Resources = nil // nothing is left but what does not exist
	text, err = json.Marshal(holdingOf("key", []cache.Snapshot{known}, asked(of()), nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, all, err := readHeld(text, "key"); err != nil || len(all) != 1 || !slices.Equal(all[0].Absent, known.Absent) {
		t.Errorf("%+v, %v; expected %q to be absent, and nothing else", all, err, known.Absent)
	}
	known = of("b", "c")
	if h := holdingOf("key", []cache.Snapshot{known}, asked(of("c", "b")), nil); len(h.Types) > 0 {
		t.Errorf("what both nodes know is passed on: %+v", h.Types)
	}
}

// TestHeldRecorded: K12: a record of last known good state from another node's disk is still marked
// as one when it arrives: it proves nothing against content that was compared with the tier head.
// Compared content carries the digest of that head.
func TestHeldRecorded(t *testing.T) {
	now := time.Now()
	own := cache.Snapshot{Type: resource.TypeOf(resource.ListenerURL), Wildcard: true, Streams: []cache.SnapshotStream{{}}, AsOf: now}
	record := own
	record.Recorded, own.HeadDigest = true, resource.Digest{1}
	for _, k := range []cache.Snapshot{own, record} {
		text, err := json.Marshal(holdingOf("key", []cache.Snapshot{k}, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, all, err := readHeld(text, "key"); err != nil || len(all) != 1 || all[0].Recorded != k.Recorded || all[0].HeadDigest != k.HeadDigest {
			t.Errorf("%+v, %v; expected a record: %t, compared with %x", all, err, k.Recorded, k.HeadDigest)
		}
	}
}

// TestHeldUnjudged: K16: a set that is passed on says whether a removal guard has judged it.
func TestHeldUnjudged(t *testing.T) {
	for _, unjudged := range []bool{false, true} {
		k := cache.Snapshot{Type: resource.TypeOf(resource.ClusterURL), Wildcard: true, Streams: []cache.SnapshotStream{{}}, AsOf: time.Now(), Unjudged: unjudged}
		text, err := json.Marshal(holdingOf("key", []cache.Snapshot{k}, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, all, err := readHeld(text, "key"); err != nil || len(all) != 1 || all[0].Unjudged != unjudged {
			t.Errorf("%+v, %v; expected a set that is unjudged: %t", all, err, unjudged)
		}
	}
}

// TestHeldErrors: C16: content that is passed on says since when clients may have been sent errors,
// by the reader's clock: the oldest of several errors counts, and there is no time if the age of
// one is unknown.
func TestHeldErrors(t *testing.T) {
	synctest.Test(t, testHeldErrors)
}

func testHeldErrors(t *testing.T) {
	now, ahead := time.Now(), time.Hour
	of := func(name string, since time.Time) cache.SnapshotResource {
		return cache.SnapshotResource{Resource: resource.New(resource.Resource{Name: name}), Streams: 1, Errored: true, ErroredSince: since}
	}
	sound := of("sound", time.Time{})
	sound.Errored = false
	for what, try := range map[string]struct {
		held []cache.SnapshotResource
		want time.Time
	}{
		"two":     {held: []cache.SnapshotResource{sound, of("a", now.Add(-time.Minute)), of("b", now.Add(-time.Second))}, want: now.Add(-time.Minute)},
		"unknown": {held: []cache.SnapshotResource{of("a", time.Time{}), of("b", now)}},
	} {
		k := cache.Snapshot{Type: resource.TypeOf(resource.EndpointURL), Streams: []cache.SnapshotStream{{}}, AsOf: now, Resources: try.held}
		h := holdingOf("key", []cache.Snapshot{k}, nil, nil)
		h.Clock = h.Clock.Add(-ahead) // the clock of the other node is behind
		all, err := h.kept(now)
		if err != nil || len(all) != 1 {
			t.Fatalf("%s: %+v, %v", what, all, err)
		}
		want := try.want
		if !want.IsZero() {
			want = want.Add(ahead)
		}
		for _, r := range all[0].Resources {
			if r.Errored != (r.Resource.Name != "sound") || r.Errored && !r.ErroredSince.Equal(want) {
				t.Errorf("%s: %+v, expected errors since %s", what, r, want)
			}
		}
	}
}

// TestHeldAfterTheClockWasSet: K12: content that is passed on keeps its age, also where the clock of
// the node is wrong, or was set after the node heard of the content.
func TestHeldAfterTheClockWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		one := cache.SnapshotResource{Resource: resource.New(resource.Resource{Name: "a"}), Streams: 1, Errored: true, ErroredSince: now.Add(-time.Minute), Expires: now.Add(time.Hour)}
		k := cache.Snapshot{Type: resource.TypeOf(resource.ClusterURL), Wildcard: true, Streams: []cache.SnapshotStream{{}}, AsOf: now, HeldBack: true, HoldUntil: now.Add(time.Minute), HeldAsOf: now.Add(-time.Second), Resources: []cache.SnapshotResource{one}}
		time.Sleep(3 * time.Second) //nolint:forbidigo // virtual time
		text, err := json.Marshal(holdingOf("key", []cache.Snapshot{k}, nil, func() time.Time { return time.Now().Add(10 * time.Minute).Round(0) }))
		if err != nil {
			t.Fatal(err)
		}
		_, all, err := readHeld(text, "key")
		if err != nil || len(all) != 1 || len(all[0].Resources) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		got, r := all[0], all[0].Resources[0]
		if !got.AsOf.Equal(k.AsOf) || !got.HoldUntil.Equal(k.HoldUntil) || !got.HeldAsOf.Equal(k.HeldAsOf) || !r.ErroredSince.Equal(one.ErroredSince) || r.Expires.Sub(one.Expires).Abs() > time.Millisecond {
			t.Errorf("%+v, expected the times of %+v", got, k)
		}
	})
}

// TestHeldFromTheFuture: K12: content that a node has as of a moment to come was stamped by a clock that
// was wrong, and is no newer than any other.
func TestHeldFromTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := cache.Snapshot{Type: resource.TypeOf(resource.ClusterURL), Wildcard: true, Streams: []cache.SnapshotStream{{}}, AsOf: time.Now().Add(10 * time.Minute)}
		k.HeldBack, k.HeldAsOf = true, k.AsOf
		text, err := json.Marshal(holdingOf("key", []cache.Snapshot{k}, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, all, err := readHeld(text, "key"); err != nil || len(all) != 1 || !all[0].AsOf.IsZero() || !all[0].HeldAsOf.IsZero() {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
