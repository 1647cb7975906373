package head

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/resource"
	"xdsrelay/relay/secure"
	"xdsrelay/relay/xdstest"
	"xdsrelay/shard/redistest"
	"xdsrelay/shard/store"
)

// TestForged: if another program writes a head of a key that a node owns, the node replaces it, and
// the nodes that follow the key do not remain behind content that no node has (K12).
func TestForged(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	for key, forge := range map[string]func(*Head){
		"same epoch":                      func(h *Head) { h.Generation += 5 },
		"same epoch, the last generation": func(h *Head) { h.Generation = maxNumber - 1 },
		"an epoch that nobody has made":   func(h *Head) { h.Epoch += 5 },
		"the last epoch":                  func(h *Head) { h.Epoch, h.Generation = maxNumber-1, maxNumber-1 },
	} {
		t.Run(key, func(t *testing.T) {
			a, b := newSweeper(t, "a", s, time.Millisecond).key(key), newSweeper(t, "b", s, time.Millisecond).key(key)
			a.own()
			a.apply("1")
			b.apply("1")
			forged := storedSoon(s, a)
			b.sees(a)
			forge(&forged)
			forged.Digest, forged.Owner = resource.Digest{1}, "stranger"
			server.Do("HSET", name(s, key), typeField+clusters.URL, forged.encode())
			storedSoon(s, a)
			xdstest.Eventually(t, "nobody to be behind", func() bool {
				wrong, err := b.Check(t.Context())
				return b.head().holds(a.edition()) && !b.edition().Standing.Behind() && fmt.Sprint(wrong, err) == "[] <nil>"
			})
			if wrong, err := a.Check(t.Context()); len(wrong) > 0 || err != nil {
				t.Errorf("the owner complains: %q, %v", wrong, err)
			}
			a.apply("2")
			b.sees(a)
		})
	}
}

// TestForgedTogether: numbers that leave no room for higher ones, written both to the epoch of a
// key and to its head, keep no node from following the key: after some time nodes accept the lower
// numbers in Redis.
func TestForgedTogether(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	for _, epoch := range []uint64{maxNumber - 1, maxNumber - 2, maxNumber - 3} {
		t.Run(fmt.Sprint(epoch), func(t *testing.T) {
			key := fmt.Sprint(epoch)
			a, b := newSweeper(t, "a", s, time.Millisecond).key(key), newSweeper(t, "b", s, time.Millisecond).key(key)
			stop := a.own()
			a.apply("1")
			b.apply("1")
			forged := storedSoon(s, a)
			b.sees(a)
			forged.Epoch, forged.Digest, forged.Owner = epoch, resource.Digest{1}, "stranger"
			server.Do("HSET", name(s, key), epochField, epoch, typeField+clusters.URL, forged.encode())
			storedSoon(s, a)
			b.sees(a)
			stop()
			a.own() // the next claim may find no room above the one before
			a.apply("2")
			storedSoon(s, a)
			b.sees(a)
		})
	}
}

const token, otherToken = "the-token-of-the-tier", "the-token-of-another-tier"

// tokenOf reads a token file with these lines; without any there is no token.
func tokenOf(t *testing.T, lines ...string) *secure.Token {
	t.Helper()
	if len(lines) == 0 {
		return nil
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := secure.NewToken(file, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// TestForgedHints: a forged hint makes no node accept a head that does not exist, nor ignore later
// heads, with a token and without.
func TestForgedHints(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	for kind, lines := range map[string][]string{"with a token": {token}, "without": nil} {
		t.Run(kind, func(t *testing.T) {
			key := kind
			start := func(name string) *keyed {
				return newNodeOf(t, name, s, Config{Every: never, Sweep: never, Wait: never, Token: tokenOf(t, lines...)}).key(key)
			}
			a, b := start("a"), start("b")
			a.own()
			a.apply("1")
			b.apply("1")
			forged := b.sees(a)
			forged.Epoch, forged.Digest, forged.Owner = maxNumber-1, resource.Digest{1}, "stranger"
			for _, head := range []string{forged.encode(), sign(s, tokenOf(t, otherToken), key, clusters.URL, forged), "what?"} {
				earlier := fmt.Sprintf(`{"key":%q,"type":%q,"head":%q}`, key, clusters.URL, head)
				server.Do("PUBLISH", s.Channel(store.HeadHints), earlier)
				server.Do("PUBLISH", s.PartChannel(store.HeadHints, bucketOf(key)), earlier)
			}
			for _, text := range []string{"{", "", "x y", "x y [", fmt.Sprintf("x y [%q]", key)} {
				server.Do("PUBLISH", s.PartChannel(store.HeadHints, bucketOf(key)), text)
			}
			a.apply("2")
			if h := b.sees(a); h.Owner != "a" {
				t.Errorf("%+v", h)
			}
			b.apply("2")
			if b.edition().Standing.Behind() {
				t.Error("b is behind what nobody has")
			}
		})
	}
}

// TestSignedHeads: with a token only heads that the tier has signed count, each for its own key and
// type, also while the token is rotated.
func TestSignedHeads(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	start := func(name string, every time.Duration, lines ...string) *keyed {
		return newNodeOf(t, name, s, Config{Every: every, Sweep: never, Wait: time.Millisecond, Token: tokenOf(t, lines...)}).key("k")
	}
	a := start("a", never, token, otherToken)
	stop := a.own()
	a.apply("1")
	late := storedSoon(s, a)
	text := server.Do("HGET", name(s, "k"), typeField+clusters.URL).(string)
	if !strings.Contains(text, `"signature":"`) {
		t.Fatalf("the head is %q, expected a signature in it", text)
	}
	forged := late
	forged.Digest = resource.Digest{1}
	server.Do("HSET", name(s, "k"), typeField+"plain", forged.encode(), typeField+"of another type", text,
		typeField+"of another content", strings.Replace(text, late.Digest.Hex(), forged.Digest.Hex(), 1))
	server.Do("HSET", name(s, "another key"), epochField, late.Epoch, typeField+clusters.URL, text)
	b := start("b", never, otherToken, token)
	b.sees(a)
	for _, url := range []string{"plain", "of another type", "of another content"} {
		if h, ok := b.Of("k", url); ok {
			t.Errorf("%s: b believes %+v", url, h)
		}
	}
	moved := b.key("another key")
	moved.own() // it reads the existing head
	moved.apply("2")
	if h := storedSoon(s, moved); h.Generation != 1 {
		t.Errorf("%+v follows the head of another key", h)
	}
	stop()
	b.own() // with the other token first
	b.apply("2")
	storedSoon(s, b)
	a.sees(b)
}

// TestForgedEqual: a head with the numbers of the real one and other content is replaced by its
// owner, and so is one without a signature.
func TestForgedEqual(t *testing.T) {
	server := redistest.Start(t, redistest.Config{})
	s := openStore(t, server.URL(), time.Minute)
	for kind, lines := range map[string][]string{"with a token": {token}, "without": nil} {
		t.Run(kind, func(t *testing.T) {
			a := newNodeOf(t, "a", s, Config{Every: soon, Sweep: soon, Wait: time.Millisecond, Token: tokenOf(t, lines...)}).key(kind)
			a.own()
			a.apply("1")
			head := storedSoon(s, a)
			for _, more := range []uint64{0, 5} {
				forged := head
				forged.Digest, forged.Generation, forged.Owner = resource.Digest{1}, head.Generation+more, "stranger"
				server.Do("HSET", name(s, kind), typeField+clusters.URL, forged.encode())
				head = storedSoon(s, a)
			}
			if lines != nil {
				text, _ := server.Do("HGET", name(s, kind), typeField+clusters.URL).(string)
				server.Do("HSET", name(s, kind), typeField+clusters.URL, head.encode())
				xdstest.Eventually(t, "the head to be signed again", func() bool {
					return server.Do("HGET", name(s, kind), typeField+clusters.URL) == text
				})
			}
		})
	}
}
