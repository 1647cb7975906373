package fanout

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
)

// Clients are sent away by connections: a stream that ends is opened again at once
// on the same connection, as long as that one is good. So the client is told to
// open no more streams on it (GOAWAY), then its streams end with a reason, and what
// is left after a moment is cut off.

// awayTime is what a client that was sent away has to close its connection.
const awayTime = 5 * time.Second

// Why streams end before their time. Each is the label of a metric, too.
const (
	surplus = "surplus"
	age     = "age"
	memory  = "memory"
)

var errOld = status.Error(codes.Unavailable, "the connection has reached the age that this node lets connections have: connect again")

// Listener says how clients come in by one of the listeners of a server.
type Listener struct {
	// Name is what it is called; rules see it as peer.listener.
	Name string
	// Secure shakes hands; nil for plaintext. See [conn.Config].
	Secure func(raw net.Conn) (net.Conn, aggregation.Connection, error)
}

// Listen gives the listener that the gRPC server has to accept clients from: it
// knows connections, for [Server.Shed] and [Server.EndOld]. What comes by another
// listener is served all the same, but only its streams are ended, it does not grow
// old, and is plaintext.
func (s *Server) Listen(l net.Listener, how Listener) net.Listener {
	d := conn.New(l, conn.Config{
		Name: how.Name, Secure: how.Secure, Age: s.cfg.MaxConnectionAge, ConnectionRefused: s.metrics.turnedAway, Refused: s.countRefused,
		Bounds: s.bounds, Faulty: s.faulty,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, d)
	return d
}

// countRefused counts what grpc-go refuses by itself.
func (s *Server) countRefused(what conn.Refused, from string) {
	l := s.cfg.Limits
	switch what {
	case conn.ManyStreams:
		l.Count(limit.StreamsPerConnection, from, "more streams on one connection than it may have")
	case conn.LargeHeaders:
		l.Count(limit.HeaderSize, from, "headers of more than twice the limit")
	case conn.ManyPings:
		l.Count(limit.Pings, from, "more pings than one in five seconds")
	case conn.Idle:
		l.Count(limit.Idle, from, "a connection without a stream")
	}
}

// guest is a client's connection with its streams.
type guest struct {
	conn    *conn.Conn // nil where it is not known; the guest is then one stream
	streams []*caller
	states  []*stream // those of the streams that are for configuration
	loads   []*loadStream
	cost    int  // see ShedCostly
	clients int  // those of the streams that are for configuration
	quiet   bool // nothing is on its way, and each stream has had an answer
}

// guests are those who are there and were not sent away yet.
func (s *Server) guests() []*guest {
	byConn := make(map[*conn.Conn]*guest)
	var all []*guest
	of := func(c *caller) *guest {
		if g := byConn[c.conn]; g != nil {
			g.streams = append(g.streams, c)
			return g
		}
		g := &guest{conn: c.conn, streams: []*caller{c}, quiet: true}
		if c.conn != nil {
			byConn[c.conn] = g
		}
		all = append(all, g)
		return g
	}
	skip := func(c *caller) bool { return c.conn != nil && c.conn.GoingAway() || c.reason.Load() != nil }
	for _, st := range s.snapshot() {
		if !skip(&st.caller) {
			g := of(&st.caller)
			g.states = append(g.states, st)
			g.clients++
			g.quiet = st.quiet() && g.quiet
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.loads {
		if !skip(&st.caller) {
			g := of(&st.caller)
			g.loads = append(g.loads, st)
		}
	}
	return all
}

// quiet tells whether the stream has had an answer and nothing is on its way.
func (s *stream) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonces > 0 && s.unacked == 0 && !s.sending
}

// Shed sends away about n of the clients to which nothing is on its way, and never more
// than most: first those whose keys have the fewest clients here. Clients are counted as
// [Server.Count] does. why is told to them. It returns how many it has sent away,
// who are about to leave then.
func (s *Server) Shed(n, most int, why string) (sent int) {
	if n <= 0 {
		return 0
	}
	all := s.guests()
	s.inShedOrder(all, time.Now())
	reason := status.Error(codes.Unavailable, why)
	for _, g := range all {
		if g.quiet && g.clients > 0 && sent+g.clients <= most {
			s.sendAway(g, reason, surplus)
			sent += g.clients
		}
		if sent >= n {
			break
		}
	}
	return sent
}

// EndOld sends away the clients whose connections have reached their age: each when
// nothing is on its way to it, or when it has not answered for the time that an ACK
// may take. It is to be called now and then, and costs little while no connection is old.
func (s *Server) EndOld() {
	now := time.Now()
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	if !slices.ContainsFunc(listeners, func(d *conn.Listener) bool { return d.AnyOld(now) }) {
		return
	}
	for _, g := range s.guests() {
		if g.conn != nil && g.conn.Old(now) && (g.quiet || g.conn.Old(now.Add(-s.cfg.AckTimeout))) {
			s.sendAway(g, errOld, age)
		}
	}
}

// sendAway does not wait for the client.
func (s *Server) sendAway(g *guest, reason error, label string) {
	s.metrics.sentAway(label, g.clients)
	end := func() {
		for _, st := range g.streams {
			st.end(reason)
		}
	}
	if g.conn == nil {
		end()
		return
	}
	if g.conn.GoAway(status.Convert(reason).Message(), label == surplus || label == memory && s.elsewhere.Load(), end) {
		time.AfterFunc(awayTime, func() { _ = g.conn.Close() })
	}
}

// Count is how many client streams for configuration are open.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Elsewhere says whether there are other nodes that a client may connect to. If so,
// one for which this node has no room is told to close its connection, too.
func (s *Server) Elsewhere(there bool) { s.elsewhere.Store(there) }

// Limit refuses new streams with RESOURCE_EXHAUSTED and why while there are most or
// more. 0 means that there is no limit.
func (s *Server) Limit(most int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.full = most, nil
	if most > 0 {
		s.full = status.Error(codes.ResourceExhausted, why)
	}
}

// fullLocked is why no more streams are taken, nil if they are.
func (s *Server) fullLocked() error {
	if s.most > 0 && len(s.streams) >= s.most {
		return s.full
	}
	return nil
}

// notAdmitted is the end of a stream that was not let in. Where the node has too
// many, the next attempt has to be on another connection to come to another node.
func (s *Server) notAdmitted(ctx context.Context, c *caller, err error) error {
	if status.Code(err) != codes.ResourceExhausted {
		return err
	}
	s.metrics.refused(codes.ResourceExhausted) // not logged: there may be thousands
	if _, limited := errors.AsType[*limit.Refusal](err); !limited || limit.Elsewhere(err) && s.elsewhere.Load() {
		told := make(chan struct{})
		if c.conn != nil && c.conn.GoAway(status.Convert(err).Message(), true, func() { close(told) }) {
			select {
			case <-told: // before the stream ends
			case <-ctx.Done():
			}
		}
	}
	return err
}

func (m *serverMetrics) sentAway(reason string, streams int) {
	m.away.Add(context.Background(), int64(streams), metric.WithAttributes(attribute.String("reason", reason)))
}

func (m *serverMetrics) turnedAway() { m.turned.Add(context.Background(), 1) }
