package secure

import "time"

// Validity is from when until when the certificate is good that is shown; zero where
// there is none.
func (s *Server) Validity() (from, until time.Time) { return s.source.get().validity() }

// Validity is from when until when the certificate is good that is shown; zero where
// there is none.
func (c *Client) Validity() (from, until time.Time) { return c.source.get().validity() }

func (m *material) validity() (from, until time.Time) {
	if len(m.certs) == 0 || m.certs[0].Leaf == nil {
		return from, until
	}
	return m.certs[0].Leaf.NotBefore, m.certs[0].Leaf.NotAfter
}
