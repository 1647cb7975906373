package head

import (
	"maps"
	"time"

	"xdsrelay/relay/secure"
	"xdsrelay/shard/store"
)

// Whoever can write to Redis can write heads, and publish hints about them. With a token
// each head is signed, and only signed ones count, in Redis and in hints. Without one a
// hint is only a reason to read what Redis has, and what Redis has for long counts, so that
// what a stranger has written once is over once the owner has replaced it.

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

// hear takes in what another node, or a stranger, has published.
func (h *Heads) hear(payload string) {
	n, head, err := decodeNote(payload)
	switch {
	case err != nil:
	case h.cfg.Token == nil:
		h.rereadNewer(n, head)
	case h.verified(n.Key, n.Type, n.Head):
		h.accept(n.Key, n.Type, head)
	}
}

// rereadNewer makes a key be read at once if a head would be newer than what is known.
func (h *Heads) rereadNewer(n note, head Head) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.followed[n.Key]
	if f == nil {
		return
	}
	if known, ok := f.heads[n.Type]; !ok || head.newer(known) {
		h.unread[n.Key] = struct{}{}
		signal(h.fresh)
	}
}

// lowerRounds is for how many rounds a key may be in a lower epoch than a head that is known
// of it: in the first ones its owner replaces what Redis has lost.
const lowerRounds = 4

// forgetHigher forgets heads of higher epochs than a key has been in for long: nobody
// replaces them, and all that come would count as older.
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
