package standin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

// session is one connection.
type session struct {
	server *Server  // fixed
	conn   net.Conn // fixed

	mu      sync.Mutex
	changed sync.Cond // with mu
	// Guarded by mu.
	out   []byte // answers that are not written yet
	ended bool
}

// Bounds on unread answers of a connection and on a request, in bytes, and on its arguments: far
// more than the product needs.
const (
	maxUnread  = 32 << 20
	maxRequest = 512 << 20
	maxArgs    = 1 << 20
)

func newSession(s *Server, conn net.Conn) *session {
	c := &session{server: s, conn: conn}
	c.changed.L = &c.mu
	return c
}

// read runs one command after the other.
func (c *session) read() {
	defer c.server.running.Done()
	defer c.end()
	in := bufio.NewReader(c.conn)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		s := c.server
		s.mu.Lock()
		for s.paused && !s.closed {
			s.resumed.Wait()
		}
		s.run(c, args)
		s.mu.Unlock()
	}
}

// write writes the answers.
func (c *session) write() {
	defer c.server.running.Done()
	defer c.conn.Close()
	for {
		c.mu.Lock()
		for len(c.out) == 0 && !c.ended {
			c.changed.Wait()
		}
		out := c.out
		c.out = nil
		ended := c.ended
		c.mu.Unlock()
		if ended {
			return
		}
		if _, err := c.conn.Write(out); err != nil {
			c.end()
			return
		}
	}
}

// answer sends an answer, or a message of a channel, without waiting.
func (c *session) answer(a any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = encode(c.out, a)
	if len(c.out) > maxUnread {
		c.endLocked()
	}
	c.changed.Signal()
}

func (c *session) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
}

func (c *session) endLocked() {
	if c.ended {
		return
	}
	c.ended = true
	c.changed.Signal()
	_ = c.conn.Close()
	go func() { // the server may hold its lock
		c.server.mu.Lock()
		defer c.server.mu.Unlock()
		c.server.dropLocked(c)
	}()
}

// readCommand reads an array of texts.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*', maxArgs)
	if err != nil {
		return nil, err
	}
	args := make([]string, 0, min(n, 1024))
	for range n {
		size, err := readLength(in, '$', maxRequest)
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		args = append(args, string(text[:size]))
	}
	if len(args) == 0 {
		return nil, errors.New("a command without a name")
	}
	return args, nil
}

func readLength(in *bufio.Reader, kind byte, limit int) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" || line[0] != kind {
		return 0, fmt.Errorf("%q, expected %q", line, kind)
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 || n > limit {
		return 0, fmt.Errorf("%q is no length up to %d", line, limit)
	}
	return n, nil
}

// status is a success answer, and failure an error answer.
type (
	status  string
	failure string
)

// encode appends an answer: nil, int64, string, status, failure, or a list of these.
func encode(to []byte, a any) []byte {
	switch a := a.(type) {
	case nil:
		return append(to, "$-1\r\n"...)
	case int64:
		return fmt.Appendf(to, ":%d\r\n", a)
	case status:
		return fmt.Appendf(to, "+%s\r\n", string(a))
	case failure:
		return fmt.Appendf(to, "-%s\r\n", string(a))
	case string:
		to = fmt.Appendf(to, "$%d\r\n", len(a))
		return append(append(to, a...), '\r', '\n')
	case []any:
		to = fmt.Appendf(to, "*%d\r\n", len(a))
		for _, e := range a {
			to = encode(to, e)
		}
		return to
	}
	return fmt.Appendf(to, "-ERR no answer of type %T\r\n", a)
}
