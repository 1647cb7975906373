package conn

// Claim books something for the connection, once. It calls book unless something is booked already,
// and calls the returned release when the connection is closed. The error is that of book.
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

// releaseClaim releases what was booked. It is idempotent.
func (c *Conn) releaseClaim() {
	c.claims.Lock()
	release := c.release
	c.release, c.closed = nil, true
	c.claims.Unlock()
	if release != nil {
		release()
	}
}
