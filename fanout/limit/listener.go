package limit

import (
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Listener counts the connections of a listener, and refuses those that are too many.
type Listener struct {
	net.Listener

	limiter *Limiter
	tell    bool
	telling chan struct{} // has room for those who are being told
}

const (
	// tellTime is what a client that is refused has to read why.
	tellTime = time.Second
	// maxTelling bounds how many are told at the same time.
	maxTelling = 64
)

// Listen counts the connections of inner. tell says that they carry HTTP/2 as it is,
// so not TLS, so that who is refused can be told why.
func (l *Limiter) Listen(inner net.Listener, tell bool) *Listener {
	return &Listener{inner, l, tell, make(chan struct{}, maxTelling)}
}

// Accept waits for the next connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		s := SourceOf(c.RemoteAddr())
		a, err := l.limiter.connect(s)
		if err != nil {
			l.refuse(c, err)
			continue
		}
		return &conn{Conn: c, limiter: l.limiter, account: a}, nil
	}
}

// refuse closes a connection. Where that is possible the client is told why, unless
// there are too many of them.
func (l *Listener) refuse(c net.Conn, why error) {
	if l.tell {
		select {
		case l.telling <- struct{}{}:
			go func() {
				tell(c, why.Error())
				<-l.telling
			}()
			return
		default:
		}
	}
	_ = c.Close()
}

// tell says why in HTTP/2 and closes the connection. It reads what the client begins
// with, since a connection that is closed with something unread loses what was written.
func tell(c net.Conn, why string) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(tellTime)) != nil {
		return
	}
	if _, err := c.Write(goAway(why)); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(c, 64<<10))
}

// goAway is all that a server has to say to whom it does not serve (RFC 9113, 6.5
// and 6.8): its settings, of which there are none, and why.
func goAway(why string) []byte {
	const header, typeSettings, typeGoAway, enhanceYourCalm = 9, 4, 7, 0xb
	frames := make([]byte, header, 2*header+8+len(why))
	frames[3] = typeSettings
	size := 8 + len(why)
	frames = append(frames, byte(size>>16), byte(size>>8), byte(size), typeGoAway, 0, 0, 0, 0, 0)
	frames = binary.BigEndian.AppendUint32(frames, 0) // no stream was served
	frames = binary.BigEndian.AppendUint32(frames, enhanceYourCalm)
	return append(frames, why...)
}

// conn is a connection that counts.
type conn struct {
	net.Conn

	limiter *Limiter
	account *account // nil for none
	gone    atomic.Bool
}

// Close gives the place back.
func (c *conn) Close() error {
	if !c.gone.Swap(true) {
		c.limiter.disconnect(c.account)
	}
	return c.Conn.Close()
}
