package head

import (
	"maps"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard/store"
)

// Any program that can write to Redis can write heads. With a token each head is signed, and only
// signed ones count. Without one, a value that stays in Redis counts, so that a foreign head has no
// effect once the owner has replaced it. Hints are not signed: they carry no head.

// purpose is what a head is signed for: it is valid for one type of one key of one tier.
func purpose(s *store.Store, key, url string) string { return "tier head " + name(s, key) + " " + url }

// sign returns the stored form of a head, with the signature of the tier.
func sign(s *store.Store, token *secure.Token, key, url string, h Head) string {
	return token.SignText(purpose(s, key, url), h.encode())
}

// verified reports whether a stored head counts.
func (h *Heads) verified(key, url, text string) bool {
	return h.cfg.Token.VerifyText(purpose(h.cfg.Store, key, url), text)
}

// read decodes the answer about a key.
func (h *Heads) read(key string, r store.Reply) (keyState, error) {
	return decodeKeyState(r, func(url, text string) bool { return h.verified(key, url, text) })
}

// lowerRounds is for how many rounds a key may be in a lower epoch than a known head: in the first
// rounds its owner replaces what Redis has lost.
const lowerRounds = 4

// forgetHigher forgets heads with a higher epoch if the key has been in a lower epoch for some
// time: no node replaces them, and all later heads would count as older. As long as a key has such
// a head, each round reads it: its stamp may never change again.
func (h *Heads) forgetHigher(key string, k keyState, now time.Time) {
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
