package standin

import (
	"maps"
	"net"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Server is a stand-in for a redis-server. All methods are safe for concurrent use.
type Server struct {
	running sync.WaitGroup // sessions, and calls of Serve

	mu sync.Mutex
	// Guarded by mu. The lock is held while a command or a script runs, and never while waiting for
	// a connection.
	values    map[string]*value
	scripts   map[string]*lua.FunctionProto // by digest
	engine    *engine
	sessions  map[*session]bool
	listeners map[net.Listener]bool
	channels  map[string]map[*session]bool // subscribers, by channel
	calls     map[string]int               // number of commands, by name
	readOnly  bool
	mute      bool
	paused    bool
	resumed   sync.Cond // with mu
	ahead     time.Duration
	closed    bool
}

// value is the value of a name: a text, or a hash.
type value struct {
	text    string
	hash    map[string]string // nil for a text
	fields  []string          // of the hash, in insertion order
	expires time.Time         // zero for never
}

// New creates a server that is empty and serves no connection yet.
func New() *Server {
	s := &Server{
		values: make(map[string]*value), scripts: make(map[string]*lua.FunctionProto), sessions: make(map[*session]bool),
		listeners: make(map[net.Listener]bool), channels: make(map[string]map[*session]bool), calls: make(map[string]int),
	}
	s.resumed.L = &s.mu
	s.engine = newEngine(s)
	return s
}

// Serve serves connections until the listener is closed; Close closes it, too.
func (s *Server) Serve(l net.Listener) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		_ = l.Close()
		return
	}
	s.running.Add(1)
	s.listeners[l] = true
	s.mu.Unlock()
	defer s.running.Done()
	for {
		conn, err := l.Accept()
		if err != nil {
			s.mu.Lock()
			delete(s.listeners, l)
			s.mu.Unlock()
			return
		}
		s.open(conn)
	}
}

// Close closes all connections and waits until everything has ended.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.resumed.Broadcast()
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.sessions {
		c.end()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine.close()
}

// Flush empties it.
func (s *Server) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.values)
}

// Hash returns a copy of the hash of a name; nil if there is none.
func (s *Server) Hash(name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.getLocked(name); v != nil {
		return maps.Clone(v.hash)
	}
	return nil
}

// ReadOnly makes it reject all writes, as a replica without its master does, or ends that.
func (s *Server) ReadOnly(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOnly = on
}

// Mute drops all published messages, as if the servers of a cluster had lost each other, or ends
// that.
func (s *Server) Mute(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = on
}

// Pause makes it answer nothing, like a stopped process, or ends that.
func (s *Server) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	s.resumed.Broadcast()
}

// SetClock sets how far its clock is ahead of the clock of the process, as on a replica that takes
// over; a negative value is behind.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// Calls returns the number of commands so far, by name, including those of scripts.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// nowLocked returns the time of the server's clock.
func (s *Server) nowLocked() time.Time { return time.Now().Add(s.ahead) }

// getLocked returns the value of a name, nil for none. It removes expired values.
func (s *Server) getLocked(name string) *value {
	v := s.values[name]
	if v != nil && !v.expires.IsZero() && !s.nowLocked().Before(v.expires) {
		delete(s.values, name)
		return nil
	}
	return v
}

// open begins to serve a connection.
func (s *Server) open(conn net.Conn) {
	c := newSession(s, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return
	}
	s.sessions[c] = true
	s.running.Add(2)
	go c.read()
	go c.write()
}

// dropLocked removes a session.
func (s *Server) dropLocked(c *session) {
	delete(s.sessions, c)
	for channel, all := range s.channels {
		if delete(all, c); len(all) == 0 {
			delete(s.channels, channel)
		}
	}
}
