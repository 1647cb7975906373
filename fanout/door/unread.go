package door

// Read counts what comes.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.unread.Add(int64(n))
	return n, err
}

// around is what HTTP/2 puts around a message, and what clients say between two.
const around = 64

// Taken says that a message of so many bytes was taken.
func (c *Conn) Taken(size int) {
	if c.unread.Add(-int64(size)-around) < 0 {
		c.unread.Store(0) // something that came just now may get lost, which is little
	}
}

// Unread is roughly how many bytes have come that no message was taken of: of a client
// that begins one and never ends it, all that it has sent.
func (c *Conn) Unread() int { return max(int(c.unread.Load()), 0) }
