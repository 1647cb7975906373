package rest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"xdsrelay/fanout/authz"
	"xdsrelay/fanout/bodycache"
	"xdsrelay/fanout/limit"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// Config configures a Server. It is not changed after [New].
type Config struct {
	// Cache has the content to serve. Its Wake must flush the clients of the subscriptions.
	// Required.
	Cache *cache.Cache
	// Rules returns the rules in force. Required.
	Rules func() *aggregation.Rules
	// Listener is the name of the port in rules.
	Listener string
	// Gate authorizes each poll; nil allows every client.
	Gate *authz.Gate
	// Connection is called for each new connection and returns the context of its requests.
	// StillTrusted returns an error unless the certificate of a request would be accepted now. Both
	// are nil if clients have no certificates.
	Connection   func(context.Context, net.Conn) context.Context
	StillTrusted func(*http.Request) error
	// ConnState is called when the state of a connection changes; may be nil.
	ConnState func(net.Conn, http.ConnState)
	// Private reports which types are not served to polls, since each client must get them over its
	// own upstream stream (K6); nil means none.
	Private func(*resource.Type) bool
	// NodeName names this node to clients (K7). Required.
	NodeName string
	// V2 also serves the paths of version 2, each with the resources of its version (J1, J2).
	V2 bool
	// Hold is how long a poll waits for a change (H4). Default 900 ms; negative means no wait.
	Hold time.Duration
	// MaxReceiveBytes bounds the body of one request. Default 4 MiB.
	MaxReceiveBytes int64
	// MaxNames bounds the names in one request. Default 200,000.
	MaxNames int
	// BodyBytes bounds the encoded answers that are kept for sharing. Default 64 MiB.
	BodyBytes int64
	// Remember is how long a polling client is shown after its last poll, at least: a client that
	// pauses for longer between polls is shown for three of its pauses. Default 1 min.
	Remember time.Duration
	// RememberBytes bounds what is remembered of all polling clients together; the client that
	// polled longest ago is dropped first. Default 64 MiB.
	RememberBytes int64
	// ReadTimeout bounds the time that a client takes to send a request. Default 10 s.
	ReadTimeout time.Duration
	// SendTimeout bounds the time that a client takes to read the answer. Default 30 s.
	SendTimeout time.Duration
	// Limits bounds what clients may use of the node; nil means no limits.
	Limits *limit.Limiter
	// Meter makes the metrics; may be nil.
	Meter metric.Meter
	// Logger logs refusals and encoding failures; may be nil.
	Logger *slog.Logger
}

func (c *Config) setDefaults() error {
	if c.Cache == nil || c.Rules == nil || c.NodeName == "" {
		return errors.New("rest: Cache, Rules and NodeName are required")
	}
	if c.Hold == 0 {
		c.Hold = 900 * time.Millisecond
	}
	c.Hold = max(c.Hold, 0)
	or(&c.MaxReceiveBytes, 4<<20)
	or(&c.MaxNames, 200_000)
	or(&c.BodyBytes, 64<<20)
	or(&c.Remember, time.Minute)
	or(&c.RememberBytes, 64<<20)
	or(&c.ReadTimeout, 10*time.Second)
	or(&c.SendTimeout, 30*time.Second)
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

// Server serves polls over HTTP. All methods are safe for concurrent use.
type Server struct {
	// Fixed after construction.
	cfg      Config
	types    map[string]*resource.Type // by path
	v2       *v2Messages               // nil if version 2 is not served
	answers  *bodycache.Cache[contentKey, answer]
	metrics  *metrics
	registry *pollRegistry
	http     *http.Server

	connections connections // has its own lock

	// drained is closed when a drain begins. From then on polls wait at most for over, which is set
	// before and not changed afterwards.
	drained chan struct{}
	over    time.Duration
}

// New makes a Server. It fails if cfg lacks a required field.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, types: make(map[string]*resource.Type), answers: bodycache.New[contentKey, answer](cfg.BodyBytes),
		connections: connections{release: make(map[net.Conn]func())}, drained: make(chan struct{}),
		registry: newPollRegistry(cfg.Cache, cfg.Remember, cfg.RememberBytes),
	}
	types := resource.Known()
	var err error
	if cfg.V2 {
		types = append(types, resource.KnownV2()...)
		if s.v2, err = newV2Messages(); err != nil {
			return nil, err
		}
	}
	for _, t := range types {
		if t.Service != nil && t.Service.REST != "" {
			s.types[t.Service.REST] = t
		}
	}
	if s.metrics, err = newMetrics(cfg.Meter); err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       s.connect,
		ConnState:         s.changed,
		ReadHeaderTimeout: cfg.ReadTimeout,
		ReadTimeout:       cfg.ReadTimeout,
		WriteTimeout:      cfg.ReadTimeout + cfg.Hold + cfg.SendTimeout, // handlers set an earlier deadline
		IdleTimeout:       2 * time.Minute,                              // most clients poll more often
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Serve answers the connections of l, and closes l at the end. It returns nil after [Server.Drain]
// or [Server.Close], and otherwise the error of the listener.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain stops accepting connections and ends the waiting polls spread over the given time, so that
// they do not all reach the other nodes at once. It returns when no poll is left, or with the error
// of ctx. It is called once.
func (s *Server) Drain(ctx context.Context, over time.Duration) error {
	s.over = over
	close(s.drained)
	return s.http.Shutdown(ctx)
}

// Shrink empties caches that only save work.
func (s *Server) Shrink() { s.answers.Clear() }

// CloseIdle closes the connections that have no request in progress. Polling clients reconnect for
// their next poll.
func (s *Server) CloseIdle() {
	s.http.SetKeepAlivesEnabled(false) // this closes idle connections
	s.http.SetKeepAlivesEnabled(true)
}

// Close ends all connections at once.
func (s *Server) Close() { _ = s.http.Close() }
