package limit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"xdsrelay/fanout/ready"
)

// Listener counts the connections of a listener, and refuses those that are too many.
type Listener struct {
	net.Listener

	book    func(Source) (release func(), err error)
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
	return newListener(inner, tell, func(s Source) (func(), error) {
		a, err := l.connect(s)
		return func() { l.disconnect(a) }, err
	})
}

// ListenPeers is Listen for the port of other nodes, whose connections have a limit of
// their own.
func (l *Limiter) ListenPeers(inner net.Listener, tell bool) *Listener {
	return newListener(inner, tell, func(s Source) (func(), error) {
		return func() { l.disconnectPeer(s) }, l.connectPeer(s)
	})
}

func newListener(inner net.Listener, tell bool, book func(Source) (func(), error)) *Listener {
	return &Listener{inner, book, tell, make(chan struct{}, maxTelling)}
}

// Accept waits for the next connection for which there is room.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		release, err := l.book(SourceOf(c.RemoteAddr()))
		if err != nil {
			l.refuse(c, err)
			continue
		}
		return &conn{Conn: c, release: release}, nil
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

// tell answers the first stream of a connection with why, and closes the connection.
// It reads on to the end, since a connection that is closed with something unread loses
// what was written.
func tell(c net.Conn, why string) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(tellTime)) != nil {
		return
	}
	in := io.LimitReader(c, maxTold)
	if answerFirst(c, in, why) != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, in)
	}
}

// maxTold bounds what is read from who is told, in bytes.
const maxTold = 64 << 10

// answerFirst is all that a server has to say to whom it does not serve: settings, of
// which there are none, RESOURCE_EXHAUSTED on the first stream, and the end.
func answerFirst(w io.Writer, r io.Reader, why string) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(r, preface); err != nil || string(preface) != http2.ClientPreface {
		return errors.Join(err, errNoHTTP2)
	}
	f := http2.NewFramer(w, r)
	f.SetMaxReadFrameSize(maxTold) // it makes room for what a frame says of itself
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if frame.Header().Type != http2.FrameHeaders {
			continue
		}
		id := frame.Header().StreamID
		return errors.Join(
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: trailersOf(why), EndHeaders: true, EndStream: true}),
			f.WriteGoAway(id, http2.ErrCodeEnhanceYourCalm, []byte(why)))
	}
}

var errNoHTTP2 = errors.New("the connection does not begin as HTTP/2 does")

// trailersOf is a gRPC response that is nothing but its status.
func trailersOf(why string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":status", "200"}, {"content-type", "application/grpc"},
		{"grpc-status", strconv.Itoa(int(codes.ResourceExhausted))}, {"grpc-message", strings.ReplaceAll(why, "%", "%25")},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // a buffer takes all
	}
	return block.Bytes()
}

// conn is a connection that counts.
type conn struct {
	net.Conn

	release func() // fixed
	gone    atomic.Bool
	ready   ready.Reader // owned by the goroutine that reads; see ReadOnReady
}

// ReadOnReady reads as a [ready.Reader], so that the connection pins no buffer.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if c.ready == nil {
		c.ready = ready.NewReader(c.Conn)
	}
	return c.ready.ReadOnReady(size, pool)
}

// Close gives the place back.
func (c *conn) Close() error {
	if !c.gone.Swap(true) {
		c.release()
	}
	return c.Conn.Close()
}
