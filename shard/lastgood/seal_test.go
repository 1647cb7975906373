package lastgood

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
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

// TestSeal: a record is opened again by its tier, for its key and its type, and by
// nobody else; no bit of it can be changed.
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

// TestSealPlain: without keys records are compressed only; damage is found all the
// same, and who has keys takes none.
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

// TestSealSize: what is larger than the limit is not kept, counted as it is
// compressed.
func TestSealSize(t *testing.T) {
	s := newTestSealer(t, "tier", nil)
	s.max = 1000
	if _, err := s.seal("key", clusters.URL, make([]byte, 100_000)); err != nil {
		t.Errorf("compressed it is small: %v", err)
	}
	noise := make([]byte, 1000)
	_, _ = rand.Read(noise)
	if _, err := s.seal("key", clusters.URL, noise); !errors.Is(err, errTooLarge) {
		t.Errorf("got %v, expected it to be too large", err)
	}
}

// TestKeyRotation: the first key encrypts, all decrypt, and the file is read again;
// one that cannot be used leaves the keys as they are.
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

// TestKeysBad: what is no file of keys is an error that names it and the line, and
// says nothing of a key.
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
