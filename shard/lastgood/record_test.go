package lastgood

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

var at = time.UnixMilli(1_800_000_000_123)

// TestRecord: a record can be decoded again, and is rejected for another key or type.
func TestRecord(t *testing.T) {
	b := Encode("key", at, sample())
	got, when, err := Decode(b, "key", clusters.URL)
	if err != nil {
		t.Fatal(err)
	}
	sameKept(t, got, sample())
	if !when.Equal(at) {
		t.Errorf("from %v, expected %v", when, at)
	}
	for _, of := range [][2]string{{"other", clusters.URL}, {"key", secrets.URL}} {
		if _, _, err := Decode(b, of[0], of[1]); err == nil {
			t.Errorf("taken for one of %q", of)
		}
	}
	empty := cache.Snapshot{Type: clusters, Wildcard: true, Streams: make([]cache.SnapshotStream, 1)}
	if got, _, err := Decode(Encode("", at, empty), "", clusters.URL); err != nil || !got.Wildcard || len(got.Resources) > 0 {
		t.Errorf("an empty set became %+v, %v", got, err)
	}
}

// TestRecordBad: a record that contradicts itself, or that is truncated anywhere, is an error.
func TestRecordBad(t *testing.T) {
	b := Encode("key", at, sample())
	for n := range b {
		got, _, err := Decode(b[:n], "key", clusters.URL)
		if err == nil && n < len(b)-9 { // without the expiry times it is complete
			t.Errorf("cut off after %d of %d bytes: got %+v", n, len(b), got)
		}
	}
	k := sample()
	k.Streams = nil
	bad := map[string][]byte{
		"no leg":             Encode("key", at, k),
		"too many legs":      Encode("key", at, cache.Snapshot{Type: clusters, Streams: make([]cache.SnapshotStream, 65)}),
		"too few holders":    appendBytes(append([]byte(nil), b...), recHeld, []byte{1}),
		"too many holders":   appendBytes(append([]byte(nil), b...), recHeld, []byte{1, 1, 1}),
		"holders cut off":    appendBytes(append([]byte(nil), b...), recHeld, []byte{1, 0x80}),
		"an end of nothing":  appendBytes(append([]byte(nil), b...), recEnds, []byte{2, 1}),
		"an end cut off":     appendBytes(append([]byte(nil), b...), recEnds, []byte{1}),
		"error of nothing":   appendBytes(append([]byte(nil), b...), recErrored, []byte{2}),
		"an error cut off":   appendBytes(append([]byte(nil), b...), recErrored, []byte{0x80}),
		"a bad resource":     appendBytes(append([]byte(nil), b...), recResponse, []byte(strings.Repeat("x", 9))),
		"a nameless one":     appendBytes(append([]byte(nil), b...), recResponse, resource.AppendDelta(nil, &resource.Message{Type: clusters, Resources: []*resource.Resource{{Body: body(secrets, "x", "")}}})),
		"what may not be so": appendBytes(append([]byte(nil), b...), recResponse, resource.AppendDelta(nil, &resource.Message{Type: clusters, Resources: []*resource.Resource{{Name: "x", Body: body(clusters, "x", ""), Extra: []byte{7<<3 | 2, 2, 1 << 3, 1}}}})),
	}
	for name, b := range bad {
		if got, _, err := Decode(b, "key", clusters.URL); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// FuzzRecord: no input causes a panic, and decoded input is encoded and decoded as the same again.
func FuzzRecord(f *testing.F) {
	f.Add(Encode("key", at, sample()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, when, err := Decode(b, "key", clusters.URL)
		if err != nil {
			return
		}
		again, _, err := Decode(Encode("key", when, k), "key", clusters.URL)
		if err != nil {
			t.Fatal(err)
		}
		sameKept(t, again, k)
	})
}

// FuzzSealed: the same for compressed and encrypted records, without a key and with one.
func FuzzSealed(f *testing.F) {
	keyed, plain := newTestSealer(f, "tier", openKeys(f, keysFile(f, newKey("a")))), newTestSealer(f, "tier", nil)
	for _, s := range []*sealer{keyed, plain} {
		sealed, err := s.seal("key", clusters.URL, Encode("key", at, sample()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed)
		f.Add(sealed[:len(sealed)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, s := range []*sealer{keyed, plain} {
			url, record, err := s.open("key", b)
			if err == nil {
				_, _, _ = Decode(record, "key", url)
			}
		}
	})
}
