package conn

// Claim books something for the connection, once: it calls book if nothing was booked
// yet, and what that returns when the connection is closed. The error is that of book.
func (c *Conn) Claim(book func() (release func(), err error)) error {
	c.claims.Lock()
	defer c.claims.Unlock()
	if c.release != nil || c.closed {
		return nil
	}
	var err error
	c.release, err = book()
	return err
}

// giveBack ends what was booked. It may be called again.
func (c *Conn) giveBack() {
	c.claims.Lock()
	release := c.release
	c.release, c.closed = nil, true
	c.claims.Unlock()
	if release != nil {
		release()
	}
}
