package lease

import "time"

// A node connects to an address, and sends the token to it, only if a node of the tier has signed
// it: anyone who can write to Redis could name any address.

// sign adds the signature of the tier to a record.
func (m *Members) sign(record string) string { return m.cfg.Token.SignText(m.purpose(), record) }

// verified reports whether a record counts: one that a node of the tier has signed, or any record
// if there is no token.
func (m *Members) verified(text string) bool { return m.cfg.Token.VerifyText(m.purpose(), text) }

// purpose is signed together with a record: the signature counts in this tier alone.
func (m *Members) purpose() string { return "member of " + m.name }

// mostForeign bounds the names that are reported.
const mostForeign = 3

// Foreign returns a few of the nodes that Redis has under the prefix of this tier without a
// signature of a node of the tier, and since when there are such nodes. Possible reasons: another
// tier uses the same prefix, a node has another token file, or another program writes to Redis.
func (m *Members) Foreign() (names []string, since time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.foreign) == 0 {
		return nil, time.Time{}
	}
	return m.foreign, m.foreignSince
}

// noteForeignLocked logs once that there are records that no node of the tier has signed, and once
// that there are none any more. It requires mu.
func (m *Members) noteForeignLocked(names []string) {
	names = names[:min(len(names), mostForeign)]
	before := len(m.foreign) > 0
	m.foreign = names
	if there := len(names) > 0; there != before {
		if m.foreignSince = time.Now(); there {
			m.cfg.Logger.Warn("Redis has nodes without a valid signature under the prefix of this tier; they are ignored", "members", names,
				"hint", "if they are of another tier, give each tier its own tier.redis.prefix; if they are of this one, give them the same token file; else somebody else writes to Redis")
		} else {
			m.cfg.Logger.Info("all nodes in Redis have valid signatures again")
		}
	}
}
