package secure

import "time"

// Expires is when the certificate ends that is shown; zero where there is none.
func (s *Server) Expires() time.Time { return s.source.get().expires() }

// Expires is when the certificate ends that is shown; zero where there is none.
func (c *Client) Expires() time.Time { return c.source.get().expires() }

func (m *material) expires() time.Time {
	if len(m.certs) == 0 || m.certs[0].Leaf == nil {
		return time.Time{}
	}
	return m.certs[0].Leaf.NotAfter
}
