package lastgood

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func newTestSealer(t testing.TB, prefix string, keys *Keys) *sealer {
	t.Helper()
	s, err := newSealer(prefix, keys, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// newLimitedSealer has no keys, and accepts records up to a limit.
func newLimitedSealer(t testing.TB, limit int) *sealer {
	t.Helper()
	s, err := newSealer("tier", nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// TestSeal: a record can be opened by its tier, for its key and its type, and in no other way; no
// bit of it can be changed.
func TestSeal(t *testing.T) {
	line := newKey("a")
	s := newTestSealer(t, "tier", openKeys(t, keysFile(t, line)))
	record := []byte(strings.Repeat("a record ", 100))
	sealed, err := s.seal("key", clusters.URL, record)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(sealed, []byte("record")) || len(sealed) > 300 {
		t.Errorf("it is not encrypted, or not compressed: %d bytes", len(sealed))
	}
	if url, got, err := s.open("key", sealed); err != nil || url != clusters.URL || !bytes.Equal(got, record) {
		t.Fatalf("got %q of %q, %v", got, url, err)
	}
	again, _ := s.seal("key", clusters.URL, record)
	if bytes.Equal(again, sealed) {
		t.Error("the same nonce twice")
	}
	if _, _, err := s.open("other", sealed); !errors.Is(err, errNotOpened) {
		t.Errorf("another key: %v", err)
	}
	if _, _, err := newTestSealer(t, "other", openKeys(t, keysFile(t, line))).open("key", sealed); !errors.Is(err, errNotOpened) {
		t.Errorf("another tier: %v", err)
	}
	if _, _, err := newTestSealer(t, "tier", openKeys(t, keysFile(t, newKey("a")))).open("key", sealed); !errors.Is(err, errNotOpened) {
		t.Errorf("another key of the same ID: %v", err)
	}
	if _, _, err := newTestSealer(t, "tier", openKeys(t, keysFile(t, newKey("b")))).open("key", sealed); !errors.Is(err, errUnknownKey) {
		t.Errorf("without its key: %v", err)
	}
	if _, _, err := newTestSealer(t, "tier", nil).open("key", sealed); !errors.Is(err, errUnknownKey) {
		t.Errorf("without keys: %v", err)
	}
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if url, got, err := s.open("key", changed); err == nil {
				t.Fatalf("bit %d of byte %d changed: got %q of %q", bit, i, got, url)
			}
		}
		if _, _, err := s.open("key", sealed[:i]); err == nil {
			t.Fatalf("cut off after %d bytes, and opened", i)
		}
	}
}

// TestSealPlain: without keys records are only compressed; damage is still detected, and a sealer
// with keys rejects them.
func TestSealPlain(t *testing.T) {
	s := newTestSealer(t, "tier", nil)
	record := []byte(strings.Repeat("a record ", 100))
	sealed, err := s.seal("key", clusters.URL, record)
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := s.open("key", sealed); err != nil || !bytes.Equal(got, record) {
		t.Fatalf("got %q, %v", got, err)
	}
	for i := range sealed {
		if _, _, err := s.open("key", sealed[:i]); err == nil && i < len(sealed) {
			t.Fatalf("cut off after %d bytes, and opened", i)
		}
	}
	keyed := newTestSealer(t, "tier", openKeys(t, keysFile(t, newKey("a"))))
	if _, _, err := keyed.open("key", sealed); !errors.Is(err, errPlain) {
		t.Errorf("with keys: %v", err)
	}
}

// TestSealSize: a record above the limit, counted after compression, is not stored; nor is one that
// is much larger before compression.
func TestSealSize(t *testing.T) {
	// Also with more than one window of the compression.
	s := newLimitedSealer(t, 8<<20)
	large := make([]byte, 8<<20*unpackedTimes)
	sealed, err := s.seal("key", clusters.URL, large)
	if err == nil {
		_, _, err = s.open("key", sealed)
	}
	if err != nil {
		t.Errorf("a large one: %v", err)
	}

	for size := 1; size < 1000; size++ {
		sealed, err := s.seal("key", clusters.URL, large[:size])
		if err == nil {
			_, _, err = s.open("key", sealed)
		}
		if err != nil {
			t.Errorf("one of %d bytes: %v", size, err)
		}
	}

	s = newLimitedSealer(t, 1000)
	if _, err := s.seal("key", clusters.URL, make([]byte, 1000*unpackedTimes)); err != nil {
		t.Errorf("compressed it is small: %v", err)
	}
	if _, err := s.seal("key", clusters.URL, make([]byte, 1000*unpackedTimes+1)); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v, expected it to be too large although it is small when compressed", err)
	}
	noise := make([]byte, 1000)
	_, _ = rand.Read(noise)
	if _, err := s.seal("key", clusters.URL, noise); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v, expected it to be too large", err)
	}
}

// TestBombs: a small record that unpacks to more than any record has is rejected before it is
// unpacked, and so is one that unpacks to more than it states.
func TestBombs(t *testing.T) {
	const limit = 100_000
	s := newLimitedSealer(t, limit)
	huge := make([]byte, 64<<20)
	pack := func(size int) []byte { return s.pack.EncodeAll(huge[:size], nil) }
	var streamed bytes.Buffer
	w, err := zstd.NewWriter(&streamed)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // with one write it would state the size
		_, _ = w.Write(huge)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const most = limit * unpackedTimes
	for name, tc := range map[string]struct {
		packed []byte
		want   error
	}{
		"as large as may be":        {pack(most), nil},
		"one byte more":             {pack(most + 1), errBomb},
		"huge":                      {pack(len(huge)), errBomb},
		"of no size":                {streamed.Bytes(), errPacked},
		"many frames":               {bytes.Repeat(pack(most/10), 11), errPacked},
		"behind a frame of nothing": {append([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, pack(len(huge))...), errPacked},
		"nothing":                   {[]byte{0}, errPacked},
	} {
		if len(tc.packed) > limit {
			t.Fatalf("%s: it is no bomb with %d bytes", name, len(tc.packed))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, got, err := s.open("key", append(header("", clusters.URL), tc.packed...))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, tc.want) || err == nil && len(got) != most {
			t.Errorf("%s: got %d bytes, %v, expected %v", name, len(got), err, tc.want)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > most+1<<20 {
			t.Errorf("%s: %d bytes were allocated, of at most %d", name, took, most)
		}
	}
}

// TestKeyRotation: the first key encrypts, all decrypt, and the file is read again; an invalid file
// leaves the keys unchanged.
func TestKeyRotation(t *testing.T) {
	one, two := newKey("one"), newKey("two")
	path := keysFile(t, one)
	log := new(logs)
	keys, err := NewKeys(path, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	s := newTestSealer(t, "tier", keys)
	sealed, _ := s.seal("key", clusters.URL, []byte("x"))
	opens := func() bool {
		_, _, err := s.open("key", sealed)
		return err == nil
	}
	writeFile(t, path, "# new first\n\n"+two+one)
	if keys.current() != "two" || !opens() {
		t.Error("expected the new key to encrypt, and the old one to decrypt")
	}
	writeFile(t, path, "two:short\n")
	if keys.current() != "two" || !opens() || log.count("level=ERROR") != 1 {
		t.Errorf("a bad file: expected the old keys, and one line in the log:\n%s", log)
	}
	writeFile(t, path, two)
	if opens() {
		t.Error("opened with a key that has been withdrawn")
	}
}

// TestKeysBad: an invalid file of keys is an error that has its name and the line, and reveals
// nothing of a key.
func TestKeysBad(t *testing.T) {
	text := base64.StdEncoding.EncodeToString(make([]byte, keySize))
	for _, content := range []string{
		"", "# nothing\n", text, ":" + text, "a b:" + text, "a:" + text + "x", "a:" + text[4:], "a:" + text + "\na:" + text, "a:" + text + "\n" + text,
	} {
		path := keysFile(t, content)
		_, err := NewKeys(path, new(logs).logger())
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), text[:8]) {
			t.Errorf("%q: got %v, expected an error that names the file and shows no key", content, err)
		}
	}
	if _, err := NewKeys("/does/not/exist", new(logs).logger()); err == nil {
		t.Error("there is no file")
	}
}
