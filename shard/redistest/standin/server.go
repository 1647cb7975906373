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
	// Guarded by mu. The lock is held while a command or a script runs, and never while
	// anything waits for a connection.
	values    map[string]*value
	scripts   map[string]*lua.FunctionProto // by digest
	engine    *engine
	sessions  map[*session]bool
	listeners map[net.Listener]bool
	channels  map[string]map[*session]bool // who listens, by channel
	calls     map[string]int               // how many commands there were, by name
	readOnly  bool
	mute      bool
	paused    bool
	resumed   sync.Cond // with mu
	ahead     time.Duration
	closed    bool
}

// value is what a name has: a text, or a hash.
type value struct {
	text    string
	hash    map[string]string // nil for a text
	fields  []string          // of the hash, in the order in which they came
	expires time.Time         // zero for never
}

// New makes a server that is empty and serves nobody yet.
func New() *Server {
	s := &Server{
		values: make(map[string]*value), scripts: make(map[string]*lua.FunctionProto), sessions: make(map[*session]bool),
		listeners: make(map[net.Listener]bool), channels: make(map[string]map[*session]bool), calls: make(map[string]int),
	}
	s.resumed.L = &s.mu
	s.engine = newEngine(s)
	return s
}

// Serve serves connections until the listener is closed, which Close does as well.
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

// Close ends all connections and waits until nothing runs any more.
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

// Hash is a copy of the hash of a name; empty where there is none.
func (s *Server) Hash(name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.getLocked(name); v != nil {
		return maps.Clone(v.hash)
	}
	return nil
}

// ReadOnly makes it refuse all writes, as a replica does whose master is away, or ends
// that.
func (s *Server) ReadOnly(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readOnly = on
}

// Mute makes what is published reach nobody, as where servers of a cluster have lost each
// other, or ends that.
func (s *Server) Mute(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = on
}

// Pause makes it answer nobody, as a process that was stopped, or ends that.
func (s *Server) Pause(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = on
	s.resumed.Broadcast()
}

// SetClock sets its clock so much before that of the process, as that of a replica may be
// that takes over; less than zero is behind.
func (s *Server) SetClock(ahead time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
}

// Calls is how many commands there were so far, by name; those of scripts count as well.
func (s *Server) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// nowLocked is the time by the server's clock.
func (s *Server) nowLocked() time.Time { return time.Now().Add(s.ahead) }

// getLocked is what a name has, nil for nothing. What has expired has gone.
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

// dropLocked forgets a session.
func (s *Server) dropLocked(c *session) {
	delete(s.sessions, c)
	for channel, all := range s.channels {
		if delete(all, c); len(all) == 0 {
			delete(s.channels, channel)
		}
	}
}
