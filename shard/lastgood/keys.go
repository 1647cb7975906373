package lastgood

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"

	"xdsrelay/relay/secure"
)

// Keys are the encryption keys of records. They are read again when their file changes. All methods
// are safe for concurrent use.
type Keys struct{ file *secure.Watched[keyring] }

// keyring is the content of a file of keys.
type keyring struct {
	first string
	byID  map[string]cipher.AEAD
	marks []string // in the order of the file
}

// keySize is the size of an AES-256 key, in bytes.
const keySize = 32

var idForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// NewKeys reads a file with one key per line, as ID:KEY with 32 bytes in base64; empty lines, and
// those that begin with #, are ignored. The first key encrypts, all decrypt. To rotate a key, add
// the new one everywhere, then move it to the first line, and remove the old one once everything
// has been written again. NewKeys returns an error if the file cannot be used; the error reveals
// nothing of the keys.
func NewKeys(file string, log *slog.Logger) (*Keys, error) {
	w, err := secure.Watch([]string{file}, log, func(contents [][]byte) (keyring, error) {
		ring, err := keysIn(contents[0])
		if err != nil {
			return ring, fmt.Errorf("keys file %s: %w", file, err)
		}
		return ring, nil
	})
	if err != nil {
		return nil, err
	}
	return &Keys{w}, nil
}

// keysIn never quotes a line.
func keysIn(content []byte) (ring keyring, err error) {
	ring.byID = make(map[string]cipher.AEAD)
	n := 0
	for line := range bytes.Lines(content) {
		n++
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		id, text, ok := bytes.Cut(line, []byte(":"))
		if !ok || !idForm.Match(id) {
			return ring, fmt.Errorf("line %d: expected ID:KEY, with letters, digits, ., - and _ in the ID", n)
		}
		key, err := base64.StdEncoding.DecodeString(string(text))
		if err != nil || len(key) != keySize {
			return ring, fmt.Errorf("line %d: expected %d bytes in base64 after the ID", n, keySize)
		}
		if _, twice := ring.byID[string(id)]; twice {
			return ring, fmt.Errorf("line %d: the ID appears twice", n)
		}
		if ring.byID[string(id)], err = newCipher(key); err != nil {
			return ring, fmt.Errorf("line %d: %w", n, err)
		}
		if ring.first == "" {
			ring.first = string(id)
		}
		mark := hmac.New(sha256.New, key)
		mark.Write([]byte("xdsrelay: which key of last_good is it?"))
		ring.marks = append(ring.marks, string(id)+":"+hex.EncodeToString(mark.Sum(nil)))
	}
	if ring.first == "" {
		return ring, errors.New("no key in it, expected at least one line ID:KEY")
	}
	return ring, nil
}

func newCipher(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Marks distinguish keys and their order, as they are now, without revealing the keys; nil without
// any. Only those who may have the keys may see them.
func (k *Keys) Marks() []string {
	if k == nil {
		return nil
	}
	return k.file.Get().marks
}

// current returns the ID of the key that encrypts; empty without keys.
func (k *Keys) current() string {
	if k == nil {
		return ""
	}
	return k.file.Get().first
}
