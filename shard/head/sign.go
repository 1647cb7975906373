package head

import (
	"maps"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard/store"
)

// Any program that can write to Redis can write heads. With a token each head is signed, and
// only signed ones count. Without one what Redis has for long counts, so that what a stranger
// has written is over once the owner has replaced it. Hints are not signed: they supply no
// head.

// purpose is what a head is signed for: it counts for one type of one key of one tier.
func purpose(s *store.Store, key, url string) string { return "tier head " + name(s, key) + " " + url }

// sign is a head as it is kept, with the signature of the tier.
func sign(s *store.Store, token *secure.Token, key, url string, h Head) string {
	return token.SignText(purpose(s, key, url), h.encode())
}

// verified reports whether a head counts, as it is kept.
func (h *Heads) verified(key, url, text string) bool {
	return h.cfg.Token.VerifyText(purpose(h.cfg.Store, key, url), text)
}

// read reads the answer about a key.
func (h *Heads) read(key string, r store.Reply) (kept, error) {
	return keptIn(r, func(url, text string) bool { return h.verified(key, url, text) })
}

// lowerRounds is for how many rounds a key may be in a lower epoch than a head that is known
// of it: in the first ones its owner replaces what Redis has lost.
const lowerRounds = 4

// forgetHigher forgets heads of higher epochs than a key has been in for long: nobody
// replaces them, and all that come would count as older. As long as a key has one, each round
// reads it: its stamp may never change again.
func (h *Heads) forgetHigher(key string, k kept, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.followed[key]
	if f == nil || k.epoch == 0 {
		return
	}
	higher := false
	for _, head := range f.heads {
		higher = higher || head.Epoch > k.epoch
	}
	switch {
	case !higher:
		f.lower = time.Time{}
	case f.lower.IsZero():
		f.lower = now
	case now.Sub(f.lower) > lowerRounds*h.cfg.Every:
		maps.DeleteFunc(f.heads, func(_ string, head Head) bool { return head.Epoch > k.epoch })
		f.lower = time.Time{}
	}
}
