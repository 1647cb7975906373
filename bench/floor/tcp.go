package floor

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// readBuffer is what a connection reads at a time: an acknowledgement and more.
const readBuffer = 512

// maxReceived bounds a message, as gRPC does.
const maxReceived = 4 << 20

// tcpListening accepts plain TCP connections.
type tcpListening struct {
	floor   *Floor         // fixed
	serving sync.WaitGroup // the connections' goroutines

	mu      sync.Mutex
	l       net.Listener          // guarded by mu; nil before Serve
	conns   map[net.Conn]struct{} // guarded by mu
	stopped bool                  // guarded by mu
}

// Serve accepts connections until Stop.
func (t *tcpListening) Serve(l net.Listener) error {
	defer l.Close()
	t.mu.Lock()
	t.l = l
	stopped := t.stopped
	t.mu.Unlock()
	for !stopped {
		conn, err := l.Accept()
		t.mu.Lock()
		stopped = t.stopped
		if err == nil && !stopped {
			t.conns[conn] = struct{}{}
			t.serving.Go(func() { t.serve(conn) })
		}
		t.mu.Unlock()
		switch {
		case err == nil && stopped:
			_ = conn.Close()
		case err != nil && !stopped:
			return fmt.Errorf("accept connections: %w", err)
		}
	}
	return nil
}

// Stop ends all connections.
func (t *tcpListening) Stop() {
	t.mu.Lock()
	t.stopped = true
	if t.l != nil {
		_ = t.l.Close()
	}
	for conn := range t.conns {
		_ = conn.Close()
	}
	t.mu.Unlock()
	t.serving.Wait()
}

// serve receives and counts. How a connection ends does not matter.
func (t *tcpListening) serve(conn net.Conn) {
	t.floor.counter.Opened()
	defer t.floor.counter.Closed()
	p := &peer{to: tcpSender{conn}}
	defer t.floor.leave(p)
	defer func() { // before it leaves: who sends to it then is let go
		t.mu.Lock()
		delete(t.conns, conn)
		t.mu.Unlock()
		_ = conn.Close()
	}()
	in := bufio.NewReaderSize(conn, readBuffer)
	for look := true; ; {
		size, body, err := readFrame(in, look)
		if err == nil {
			look, err = t.floor.heard(p, size, body, look)
		}
		if err != nil {
			return
		}
	}
}

// readFrame reads a message behind gRPC's header, and passes over its body
// unless it is to be looked at.
func readFrame(in *bufio.Reader, look bool) (size int, body []byte, err error) {
	header, err := in.Peek(frameHeader)
	if err != nil {
		return 0, nil, err
	}
	size = int(binary.BigEndian.Uint32(header[1:]))
	if header[0] != 0 || size > maxReceived {
		return 0, nil, fmt.Errorf("got a message that begins %x, expected 00 and a length up to %d", header, maxReceived)
	}
	if _, err = in.Discard(frameHeader); err != nil {
		return 0, nil, err
	}
	if !look {
		_, err = in.Discard(size)
		return size, nil, err
	}
	body = make([]byte, size)
	_, err = io.ReadFull(in, body)
	return size, body, err
}

// tcpSender writes messages to a connection.
type tcpSender struct{ net.Conn }

var errNoMessage = errors.New("floor: not a message")

// SendMsg writes a *message.
func (s tcpSender) SendMsg(m any) error {
	message, ok := m.(*message)
	if !ok {
		return errNoMessage
	}
	_, err := s.Write(message.framed)
	return err
}
