package ops

import (
	"math"
	"net/url"
	"slices"
	"testing"

	"xdsrelay/relay/cache"
)

// TestSpans: an update is a number, or a version, which stands for its update of each type; the last
// of these counts for types that had none.
func TestSpans(t *testing.T) {
	cds := typePast{past: []cache.Past{
		{Number: 5, ControlPlaneVersion: "v2", Version: "v2", Digest: "bbbbbbbbbbbb"},
		{Number: 1, ControlPlaneVersion: "v1", Version: "v1", Digest: "aaaaaaaaaaaa"},
	}}
	eds := typePast{past: []cache.Past{
		{Number: 6, ControlPlaneVersion: "7", Digest: "dddddddddddd"},
		{Number: 4, ControlPlaneVersion: "v2", Digest: "cccccccccccc"},
		{Number: 2, ControlPlaneVersion: "v1", Digest: "aaaaaaaabbbb"},
	}}
	lds := typePast{past: []cache.Past{{Number: 3, ControlPlaneVersion: "v1", Digest: "eeeeeeeeeeee"}}}
	const now = math.MaxUint64
	type pair = [2]uint64
	for _, c := range []struct {
		update, from, to string
		want             []pair
		unknown          string
	}{
		{update: "5", want: []pair{{4, 5}}},
		{update: "v1", want: []pair{{0, 1}, {1, 2}, {2, 3}}},
		{update: "v2", want: []pair{{4, 5}, {3, 4}}},
		{update: "6", want: []pair{{5, 6}}},
		{update: "7", want: []pair{{5, 6}}},
		{update: "bbbbbbbb", want: []pair{{4, 5}}},
		{update: "bbbbbbb", unknown: "bbbbbbb"}, // too short
		{update: "9", unknown: "9"},
		{update: "last", want: []pair{{5, 6}}},
		{from: "0", to: "3", want: []pair{{0, 3}, {0, 3}, {0, 3}}},
		{from: "v1", to: "v2", want: []pair{{1, 5}, {2, 4}, {3, 5}}},
		{from: "v2", want: []pair{{5, now}, {4, now}, {5, now}}},
		{from: "5", to: "3"}, // the wrong way round: nothing is in between
		{from: "v9", unknown: "v9"},
		{from: "v1", to: "v9", unknown: "v9"},
	} {
		spans, unknown := spansOf([]typePast{cds, eds, lds}, ChangesQuery{Update: c.update, From: c.from, To: c.to})
		var got []pair
		for _, s := range spans {
			got = append(got, pair{s.from, s.to})
		}
		if !slices.Equal(got, c.want) || unknown != c.unknown {
			t.Errorf("update %q, from %q to %q: %v, unknown %q; expected %v, unknown %q", c.update, c.from, c.to, got, unknown, c.want, c.unknown)
		}
	}
}

// FuzzChangesQuery: a query is rejected, or means the same after it was passed on.
func FuzzChangesQuery(f *testing.F) {
	f.Add("key=a&update=1")
	f.Add("key=a&from=v1&to=v2&type=CDS&node=b")
	f.Add("key=a&from=0&update=3")
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseChangesQuery(v)
		if err != nil {
			return
		}
		again, err := ParseChangesQuery(q.values())
		q.Node = "" // selects who is asked
		if err != nil || again != q {
			t.Errorf("%+v became %+v, %v", q, again, err)
		}
	})
}
