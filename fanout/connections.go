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
	"xdsrelay/fanout/journal"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/fanout/transport"
	"xdsrelay/relay/aggregation"
)

// Clients are drained by connection: a client reopens a stream that ended on the same connection as
// long as that is usable. So the client is asked to open no more streams on it (GOAWAY), then its
// streams end with a reason, and the connection is closed after drainTime.

// drainTime is how long a drained client has to close its connection.
const drainTime = 5 * time.Second

// drainReason is why a connection is drained early: as the metric has it, and the events of its
// clients. shed has no metric, since it is counted as a rejection.
type drainReason struct {
	metric string
	event  journal.End
}

var (
	rebalanced  = drainReason{rejection.Rebalanced, journal.Rebalanced}
	maxAge      = drainReason{"max_age", journal.TooOld}
	kicked      = drainReason{"kicked", journal.Kicked}
	formerRules = drainReason{"former_rules", journal.RulesChanged} // see [Server.EndFormer]
	shed        = drainReason{"", journal.Shed}
)

var errKicked = status.Error(codes.Unavailable, "an operator closed this connection: reconnect")

var errTooOld = status.Error(codes.Unavailable, "the connection reached the maximum connection age: reconnect")

// Listener describes a listener of a server.
type Listener struct {
	// Name is its name; rules see it as peer.listener.
	Name string
	// Secure does the handshake; nil means plaintext. See [conn.Config].
	Secure func(raw net.Conn) (net.Conn, aggregation.Connection, error)
}

// Listen returns the listener from which the gRPC server must accept clients. It knows connections,
// for [Server.Shed] and [Server.EndOld]. Clients of other listeners are served, too, but over
// plaintext, only their streams are ended, and their connections have no maximum age.
func (s *Server) Listen(l net.Listener, how Listener) net.Listener {
	d := conn.New(l, conn.Config{
		Name: how.Name, Secure: how.Secure, Age: s.cfg.MaxConnectionAge, ConnectionRefused: s.metrics.connectionRefused, Refused: s.countRefused,
		Bounds: s.bounds, Faulty: s.faulty,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, d)
	return d
}

// countRefused counts a refusal that grpc-go makes itself.
func (s *Server) countRefused(what conn.Refused, from string) {
	l := s.cfg.Limits
	switch what {
	case conn.ManyStreams:
		l.Count(limit.StreamsPerConnection, from, "more streams on one connection than it may have")
	case conn.LargeHeaders:
		l.Count(limit.HeaderSize, from, "headers of more than twice the limit")
	case conn.ManyPings:
		l.Count(limit.Pings, from, "more than one ping in five seconds")
	case conn.Idle:
		l.Count(limit.Idle, from, "a connection without a stream")
	}
}

// connection is a client's connection with its streams.
type connection struct {
	conn    *conn.Conn // nil if unknown; the connection then has one stream
	streams []*caller
	states  []*stream // the streams for configuration
	loads   []*loadStream
	cost    int  // in bytes; see ShedCostly
	clients int  // number of streams for configuration
	quiet   bool // each stream has had an answer, and nothing is in flight to it
}

// connections returns the connections with streams that are not being drained.
func (s *Server) connections() []*connection {
	byConn := make(map[*conn.Conn]*connection)
	var all []*connection
	of := func(c *caller) *connection {
		if g := byConn[c.conn]; g != nil {
			g.streams = append(g.streams, c)
			return g
		}
		g := &connection{conn: c.conn, streams: []*caller{c}, quiet: true}
		if c.conn != nil {
			byConn[c.conn] = g
		}
		all = append(all, g)
		return g
	}
	skip := func(c *caller) bool { return c.conn != nil && c.conn.GoingAway() || c.call.Ended() }
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

// quiet reports whether the stream has had an answer and nothing is in flight to it.
func (s *stream) quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nonces > 0 && s.unacked == 0 && !s.sending
}

// Shed drains about n of the clients to which nothing is in flight, and never more than most: first
// those whose keys have the fewest clients on this node. Clients are counted as by [Server.Count].
// why is the reason for the clients. It returns how many it drains; they are about to leave then.
func (s *Server) Shed(n, most int, why string) (sent int) {
	if n <= 0 {
		return 0
	}
	all := s.connections()
	s.sortForShedding(all, time.Now())
	reason := status.Error(codes.Unavailable, why)
	for _, g := range all {
		if g.quiet && g.clients > 0 && sent+g.clients <= most {
			s.drainConn(g, reason, rebalanced)
			sent += g.clients
		}
		if sent >= n {
			break
		}
	}
	return sent
}

// EndOld drains the clients whose connections have reached their age: each once nothing is in
// flight to it, or AckTimeout later. It must be called periodically, and costs little while no
// connection is old.
func (s *Server) EndOld() {
	now := time.Now()
	s.mu.Lock()
	listeners := s.listeners
	s.mu.Unlock()
	if !slices.ContainsFunc(listeners, func(d *conn.Listener) bool { return d.AnyOld(now) }) {
		return
	}
	for _, g := range s.connections() {
		if g.conn != nil && g.conn.Old(now) && (g.quiet || g.conn.Old(now.Add(-s.cfg.AckTimeout))) {
			s.drainConn(g, errTooOld, maxAge)
		}
	}
}

// drainConn does not wait for the client.
func (s *Server) drainConn(g *connection, reason error, why drainReason) {
	s.metrics.drained(why, g.clients)
	ended := &ending{reason, why.event}
	end := func() {
		for _, st := range g.streams {
			st.call.End(ended)
		}
	}
	if g.conn == nil {
		end()
		return
	}
	if g.conn.GoAway(status.Convert(reason).Message(), why == rebalanced || why == kicked && s.elsewhere.Load() || why == shed && s.elsewhere.Load(), end) {
		time.AfterFunc(drainTime, func() { _ = g.conn.Close() })
	}
}

// Count returns the number of open client streams for configuration.
func (s *Server) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Elsewhere sets whether clients may connect to other nodes. If so, a client that this node has no
// room for is asked to close its connection, too.
func (s *Server) Elsewhere(there bool) { s.elsewhere.Store(there) }

// Limit refuses new streams with RESOURCE_EXHAUSTED and why while there are most or more. 0 means
// no limit.
func (s *Server) Limit(most int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most, s.full = most, nil
	if most > 0 {
		s.full = status.Error(codes.ResourceExhausted, why)
	}
}

// fullLocked returns why new streams are refused; nil if they are accepted.
func (s *Server) fullLocked() error {
	if s.most > 0 && len(s.streams) >= s.most {
		return s.full
	}
	return nil
}

// notAdmitted returns the error for a stream that was refused. If the node has too many streams, the
// client must retry on another connection to reach another node.
func (s *Server) notAdmitted(err error) error {
	if status.Code(err) != codes.ResourceExhausted {
		return err
	}
	_, limited := errors.AsType[*limit.Refusal](err)
	if !limited {
		s.metrics.rejections.Add(rejection.Stream, rejection.Rebalanced) // not logged: there may be thousands
	}
	if !limited || limit.Elsewhere(err) && s.elsewhere.Load() {
		return &transport.Away{Reason: err}
	}
	return err
}

func (m *serverMetrics) drained(why drainReason, streams int) {
	if why != shed {
		m.drainedStreams.Add(context.Background(), int64(streams), metric.WithAttributes(attribute.String("reason", why.metric)))
	}
}

func (m *serverMetrics) connectionRefused() {
	m.rejections.Add(rejection.Connection, rejection.Rebalanced)
}
