package fanout

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/bodycache"
	"xdsrelay/fanout/conn"
	"xdsrelay/fanout/journal"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/fanout/sharedgzip"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/events"
	"xdsrelay/relay/load"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// Config configures a Server. It is not changed after [New].
type Config struct {
	// Cache has the content to serve, and Pool propagates its changes. Required.
	Cache *cache.Cache
	Pool  *Pool
	// Rules returns the rules in force. Required.
	Rules func() *aggregation.Rules
	// Gate authorizes clients; nil allows every client.
	Gate *authz.Gate
	// RecheckInterval is how often each client is authorized again; see [Server.RunRechecks]. 0
	// means only when trust or rules change.
	RecheckInterval time.Duration
	// Keyed is called when a client has a key, before it subscribes to anything, with the name of the rule
	// that it matched; see [aggregation.Result]. Nil for no call. It must not block.
	Keyed func(g *cache.Group, rule string)
	// Loads takes the clients' load reports. Nil means that the control plane accepts none, and
	// their streams end with UNIMPLEMENTED.
	Loads *load.Collector
	// Private reports which types each client gets over its own upstream streams (K6); nil means
	// none.
	Private func(*resource.Type) bool
	// NodeName names this node to clients (K7). Required.
	NodeName string
	// SendTimeout ends a stream whose client does not read. Default 30 s.
	SendTimeout time.Duration
	// AckTimeout is how long a response waits for its ACK before newer state is sent without it
	// (B12). Default 30 s.
	AckTimeout time.Duration
	// OriginTimeout is how long a stream without an answer waits for an unreachable control plane
	// before it ends with UNAVAILABLE (K15): less than the 15 s after which a client takes silence
	// for absence. Default 8 s.
	OriginTimeout time.Duration
	// HandshakeTimeout ends a connection on which HTTP/2 has not begun. Default 10 s.
	HandshakeTimeout time.Duration
	// FirstRequestTimeout ends a stream without a request. Default 10 s.
	FirstRequestTimeout time.Duration
	// MaxReceiveBytes bounds one request; a reconnecting delta client lists every version that it
	// holds (B40). Default 40 MiB, which is what MaxNames needs.
	MaxReceiveBytes int
	// MaxSendBytes bounds one response if it can be divided (B40): it is the default limit of
	// clients. Default 4 MiB.
	MaxSendBytes int
	// MaxConnectionAge is the age at which a connection of [Server.Listen] is drained. 0 means
	// never.
	MaxConnectionAge time.Duration
	// MaxNames bounds the names that one stream subscribes to. Default 200,000.
	MaxNames int
	// Limits bounds what clients may use of the node. Nil means only the limits above.
	Limits *limit.Limiter
	// V2 also serves version 2 of the protocol (J1).
	V2 bool
	// Compression says which responses are compressed; the default is none.
	Compression Compression
	// BodyBytes bounds the encoded responses that are kept for sharing. Default 256 MiB.
	BodyBytes int64
	// EventBytes bounds the events that are kept of each stream of a client; see package journal. 0
	// means none.
	EventBytes int
	// Tracer traces updates on their way to the clients; may be nil.
	Tracer *trace.Tracer
	// Meter makes the metrics; may be nil.
	Meter metric.Meter
	// Logger logs refusals and rejections; may be nil.
	Logger *slog.Logger
}

func (c *Config) setDefaults() error {
	if c.Cache == nil || c.Pool == nil || c.Rules == nil || c.NodeName == "" {
		return errors.New("fanout: Cache, Pool, Rules and NodeName are required")
	}
	or(&c.SendTimeout, 30*time.Second)
	or(&c.AckTimeout, 30*time.Second)
	or(&c.OriginTimeout, 8*time.Second)
	or(&c.HandshakeTimeout, 10*time.Second)
	or(&c.FirstRequestTimeout, 10*time.Second)
	or(&c.MaxReceiveBytes, 40<<20)
	or(&c.MaxSendBytes, 4<<20)
	or(&c.MaxNames, 200_000)
	or(&c.BodyBytes, 256<<20)
	if c.Meter == nil {
		c.Meter = noop.Meter{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Limits == nil {
		var err error
		if c.Limits, err = limit.New(limit.Values{}, c.Meter, c.Logger); err != nil {
			return err
		}
	}
	return nil
}

func or[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Server serves xDS to clients. All methods are safe for concurrent use.
type Server struct {
	// Fixed after construction.
	cfg     Config
	began   time.Time
	bodies  *bodycache.Cache[bodyKey, body] // shared by all clients in the same position
	metrics *serverMetrics
	load    *loadMetrics
	left    *journal.Departed // the events of clients that have left
	recheck chan struct{}     // capacity 1

	largeLoads chan struct{} // capacity maxLargeLoads

	compressor sharedgzip.Compressor // safe for concurrent use
	packed     atomic.Uint64         // number of compressed bodies

	draining      atomic.Bool
	elsewhere     atomic.Bool                            // there are other nodes; see Server.Elsewhere
	rechecks      atomic.Uint64                          // calls of Recheck
	ruleSets      atomic.Uint32                          // calls of RulesChanged
	lines         [codes.Unauthenticated + 1]limit.Lines // per code; see refused
	refusalEvents [codes.Unauthenticated + 1]limit.Lines // per code; see logRefusal
	oversizeLines limit.Lines                            // see oversize

	candidates     candidates
	oversizeEvents limit.Lines

	mu sync.Mutex
	// Guarded by mu.
	streams   map[*stream]struct{}
	peers     map[*stream]struct{} // streams of other nodes: they are not clients, and a drain does not wait for them
	loads     map[*loadStream]struct{}
	listeners []*conn.Listener // made by Listen
	empty     chan struct{}    // closed when draining and no streams are left
	most      int              // number of streams from which on new ones are refused with full; 0 means no limit
	full      error
}

// New makes a Server. It fails if cfg lacks a required field.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, began: time.Now(), left: journal.NewDeparted(cfg.EventBytes), bodies: bodycache.New[bodyKey, body](cfg.BodyBytes), streams: make(map[*stream]struct{}), peers: make(map[*stream]struct{}), loads: make(map[*loadStream]struct{}), empty: make(chan struct{}), recheck: make(chan struct{}, 1), largeLoads: make(chan struct{}, maxLargeLoads)}
	var err error
	if s.load, err = newLoadMetrics(cfg.Meter); err != nil {
		return nil, err
	}
	s.metrics, err = newServerMetrics(cfg.Meter, s)
	return s, err
}

func (s *Server) add(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.tier != nil {
		s.peers[st] = struct{}{}
		s.metrics.opened(st)
		return nil
	}
	if s.draining.Load() {
		return errDraining
	}
	if err := s.fullLocked(); err != nil {
		return err
	}
	s.streams[st] = struct{}{}
	st.enters()
	s.metrics.opened(st)
	return nil
}

func (s *Server) remove(st *stream) {
	st.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, client := s.streams[st]; client {
		st.leaves()
	}
	delete(s.streams, st)
	delete(s.peers, st)
	s.metrics.closed(st)
	s.signalEmptyLocked()
}

// signalEmptyLocked closes empty once the last stream of a draining server has ended. The caller
// holds mu.
func (s *Server) signalEmptyLocked() {
	if !s.draining.Load() || len(s.streams)+len(s.loads) > 0 {
		return
	}
	select {
	case <-s.empty:
	default:
		close(s.empty)
	}
}

// snapshot returns the open client streams.
func (s *Server) snapshot() []*stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*stream, 0, len(s.streams))
	for st := range s.streams {
		out = append(out, st)
	}
	return out
}

// ended returns the status of a stream of which no further request can be read.
func (s *Server) ended(c *caller, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case status.Code(err) == codes.ResourceExhausted && !c.call.Ended():
		// gRPC has refused a message that is too large.
		s.cfg.Limits.Count(limit.MessageSize, c.peer, status.Convert(err).Message())
		return s.logRefusal(c, err)
	case errors.Is(err, errNoRequest):
		s.cfg.Limits.Count(limit.FirstRequest, c.peer, status.Convert(err).Message())
		return s.logRefusal(c, err)
	case errors.Is(err, errSendDeadline):
		s.cfg.Limits.Count(limit.SendTimeout, c.peer, status.Convert(err).Message())
	}
	return err
}

// linePause is the minimum time between two log lines about refusals with the same code.
const linePause = time.Second

// refused counts and logs a stream that is ended because of what the client asked for. Limits have
// their own log lines.
func (s *Server) refused(c *caller, err error) error {
	_, limited := errors.AsType[*limit.Refusal](err)
	if !limited && !authz.Rejected(err) { // these are counted where they were decided
		s.metrics.rejections.Add(rejection.Request, rejection.Code(status.Code(err)))
	}
	return s.logRefusal(c, err)
}

func (s *Server) logRefusal(c *caller, err error) error {
	code := status.Code(err)
	refusal, limited := errors.AsType[*limit.Refusal](err)
	if limited {
		refusal.Log()
	}
	if limited || int(code) >= len(s.lines) {
		return err
	}
	more, ok := s.lines[code].Next(time.Now(), linePause)
	if !ok {
		return err
	}
	level := slog.LevelInfo
	if code == codes.Internal {
		level = slog.LevelError
	}
	attrs := []any{"peer", c.peer, "node", c.nodeID, "code", code.String(), "reason", err.Error(), "more_since_last", more}
	if _, due := s.refusalEvents[code].Next(time.Now(), limit.EventPause); due && !authz.Rejected(err) { // those have an event of their own
		attrs = append(attrs, events.Key, events.ClientsRejected)
	}
	s.cfg.Logger.Log(context.Background(), level, "stream refused", attrs...)
	return err
}

// nackedLocked logs a rejection once per client and type until the client accepts a response again,
// so that a client that rejects everything does not fill the disk.
func (s *Server) nackedLocked(ctx context.Context, st *stream, ts *typeState) {
	nack, typeURL := ts.nack, ts.table.Type.URL
	st.laterLocked(func() {
		s.cfg.Logger.WarnContext(ctx, "response rejected by a client", "peer", st.peer, "node", st.nodeID, "key", string(st.group.Key),
			"type", typeURL, "version", nack.Version, "message", nack.Message)
	})
}

// oversizePause is the minimum time between two log lines about responses that are too large.
const oversizePause = time.Minute

// oversizeLocked counts and logs a response that is too large and could not be divided: a full
// state or a single resource (B40). Most clients will reject it.
func (s *Server) oversizeLocked(st *stream, ts *typeState, size int) {
	ts.metrics.oversize()
	more, due := s.oversizeLines.Next(time.Now(), oversizePause)
	if !due {
		return
	}
	typeURL := ts.table.Type.URL
	st.laterLocked(func() {
		attrs := []any{"type", typeURL, "bytes", size, "limit", s.cfg.MaxSendBytes, "more_since_last", more}
		if _, due := s.oversizeEvents.Next(time.Now(), limit.EventPause); due {
			attrs = append(attrs, events.Key, events.ResponseTooLarge)
		}
		s.cfg.Logger.Error("response is larger than most clients accept and cannot be split", attrs...)
	})
}
