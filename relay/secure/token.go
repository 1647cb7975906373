package secure

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// minToken is the least length of a token in bytes.
const minToken = 16

// Token is a secret that both sides have in a file. All methods are safe for
// concurrent use.
type Token struct{ lines *Watched[[]string] }

// NewToken reads a file with one token in a line, without spaces and of 16 bytes
// at least. The first is shown to others, all are good: so a token is exchanged by
// adding the new one everywhere, then putting it first, then taking the old one
// out.
func NewToken(file string, log *slog.Logger) (*Token, error) {
	lines, err := Watch([]string{file}, log, func(contents [][]byte) ([]string, error) {
		tokens, err := tokensIn(contents[0])
		if err != nil {
			return nil, fmt.Errorf("token file %s: %w", file, err)
		}
		return tokens, nil
	})
	if err != nil {
		return nil, err
	}
	return &Token{lines}, nil
}

// tokensIn never says what is in a line.
func tokensIn(content []byte) (tokens []string, err error) {
	n := 0
	for line := range bytes.Lines(content) {
		n++
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case len(line) < minToken:
			return nil, fmt.Errorf("line %d has %d bytes, expected %d at least", n, len(line), minToken)
		case bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("line %d: expected letters, digits and signs of ASCII, without spaces", n)
		}
		tokens = append(tokens, string(line))
	}
	if len(tokens) == 0 {
		return nil, errors.New("it is empty, expected a token")
	}
	return tokens, nil
}

// Current is the token to show.
func (t *Token) Current() string { return t.lines.Get()[0] }

// A text that is signed ends with its signature, as the last field of its JSON, which
// nodes that know nothing of signatures ignore:
//
//	{"name":"a","peer":"10.0.0.1:18100",…,"signature":"hex of 32 bytes"}
//
// Signed is the text without it.
const (
	signatureBegins = `,"signature":"`
	signatureEnds   = `"}`

	// SignatureSize is how many bytes longer a text gets at most by being signed.
	SignatureSize = len(signatureBegins) + 2*sha256.Size + len(signatureEnds)
)

// SignText adds a signature (HMAC-SHA256) to a text that ends with a JSON object of one
// field at least, by the token that is shown to others. A purpose is what the text counts
// for. A nil token signs nothing.
func (t *Token) SignText(purpose, text string) string {
	if t == nil {
		return text
	}
	sum := sign(t.Current(), purpose, text)
	return strings.TrimSuffix(text, "}") + signatureBegins + hex.EncodeToString(sum) + signatureEnds
}

// VerifyText reports whether a text counts for a purpose: one that is signed for it with a
// good token, or any where the token is nil.
func (t *Token) VerifyText(purpose, text string) bool {
	if t == nil {
		return true
	}
	at := strings.LastIndex(text, signatureBegins)
	if at < 0 {
		return false
	}
	signature, ok := strings.CutSuffix(text[at+len(signatureBegins):], signatureEnds)
	sum, err := hex.DecodeString(signature)
	return ok && err == nil && t.verify(purpose, text[:at]+"}", sum)
}

// verify reports whether a signature of a message is by a good token, for that purpose.
func (t *Token) verify(purpose, message string, signature []byte) bool {
	good := false
	for _, token := range t.lines.Get() {
		good = hmac.Equal(signature, sign(token, purpose, message)) || good
	}
	return good
}

// sign puts the length of purpose first, so that no other pair has the same signature.
func sign(token, purpose, message string) []byte {
	h := hmac.New(sha256.New, []byte(token))
	_, _ = fmt.Fprintf(h, "xdsrelay %d %s %s", len(purpose), purpose, message) // a hash takes everything
	return h.Sum(nil)
}

// Matches reports whether given is a good token. The time it takes says nothing
// about how far it is right.
func (t *Token) Matches(given string) bool {
	sum, good := sha256.Sum256([]byte(given)), 0
	for _, token := range t.lines.Get() {
		want := sha256.Sum256([]byte(token))
		good |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return good == 1
}
