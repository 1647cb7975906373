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

// Listener counts the connections of a listener and refuses those over the limit.
type Listener struct {
	net.Listener

	book       func(Source) (release func(), err error)
	explain    bool
	explaining chan struct{} // capacity: refused clients that get an explanation at the same time
}

const (
	// explainTime is how long explaining a refusal to a client may take.
	explainTime = time.Second
	// maxExplaining bounds how many refusals are explained at the same time.
	maxExplaining = 64
)

// Listen limits the connections of inner. explain says that they carry HTTP/2 without TLS, so that
// refused clients can get a reason.
func (l *Limiter) Listen(inner net.Listener, explain bool) *Listener {
	return newListener(inner, explain, func(s Source) (func(), error) {
		a, err := l.connect(s)
		return func() { l.disconnect(a) }, err
	})
}

// ListenPeers is Listen for the port for other nodes, whose connections have their own limit.
func (l *Limiter) ListenPeers(inner net.Listener, explain bool) *Listener {
	return newListener(inner, explain, func(s Source) (func(), error) {
		return func() { l.disconnectPeer(s) }, l.connectPeer(s)
	})
}

func newListener(inner net.Listener, explain bool, book func(Source) (func(), error)) *Listener {
	return &Listener{inner, book, explain, make(chan struct{}, maxExplaining)}
}

// Accept waits for the next connection within the limits.
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

// refuse closes a connection. It explains why if that is possible and not too many explanations are
// in progress.
func (l *Listener) refuse(c net.Conn, why error) {
	if l.explain {
		select {
		case l.explaining <- struct{}{}:
			go func() {
				explain(c, why.Error())
				<-l.explaining
			}()
			return
		default:
		}
	}
	_ = c.Close()
}

// explain answers the first stream of a connection with why and closes the connection. It reads to
// the end first: closing a connection with unread data loses what was written.
func explain(c net.Conn, why string) {
	defer c.Close()
	if c.SetDeadline(time.Now().Add(explainTime)) != nil {
		return
	}
	in := io.LimitReader(c, maxExplainRead)
	if answerFirst(c, in, why) != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, in)
	}
}

// maxExplainRead bounds the bytes that are read from a refused client.
const maxExplainRead = 64 << 10

// answerFirst serves a refused client: it sends empty settings, RESOURCE_EXHAUSTED on the first
// stream, and GOAWAY.
func answerFirst(w io.Writer, r io.Reader, why string) error {
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(r, preface); err != nil || string(preface) != http2.ClientPreface {
		return errors.Join(err, errNoHTTP2)
	}
	f := http2.NewFramer(w, r)
	f.SetMaxReadFrameSize(maxExplainRead) // the framer allocates the size that a frame announces
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

var errNoHTTP2 = errors.New("the connection does not start with the HTTP/2 preface")

// trailersOf encodes a gRPC response that is only a status.
func trailersOf(why string) []byte {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, h := range [][2]string{
		{":status", "200"}, {"content-type", "application/grpc"},
		{"grpc-status", strconv.Itoa(int(codes.ResourceExhausted))}, {"grpc-message", strings.ReplaceAll(why, "%", "%25")},
	} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}) // writes to a buffer cannot fail
	}
	return block.Bytes()
}

// conn is a counted connection.
type conn struct {
	net.Conn

	release func() // fixed
	closed  atomic.Bool
	ready   ready.Reader // owned by the reading goroutine; see ReadOnReady
}

// ReadOnReady reads like a [ready.Reader], so that the connection pins no buffer.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	if c.ready == nil {
		c.ready = ready.NewReader(c.Conn)
	}
	return c.ready.ReadOnReady(size, pool)
}

// Close releases the booking.
func (c *conn) Close() error {
	if !c.closed.Swap(true) {
		c.release()
	}
	return c.Conn.Close()
}
