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

// Config says how a Server behaves. It is not changed after [New].
type Config struct {
	// Cache is what is served. Its Wake has to flush the clients of the
	// subscriptions. Required.
	Cache *cache.Cache
	// Rules returns the rules that are in force now. Required.
	Rules func() *aggregation.Rules
	// Listener is what rules call the port.
	Listener string
	// Gate lets clients in, poll by poll, or refuses them; nil lets in everybody.
	Gate *authz.Gate
	// Connection is called for each new connection, and what it returns is the context
	// of its requests; StillTrusted tells whether the certificate that a request came
	// with would be taken now. Both are nil where clients show none.
	Connection   func(context.Context, net.Conn) context.Context
	StillTrusted func(*http.Request) error
	// ConnState is called when the state of a connection changes; nil for nothing.
	ConnState func(net.Conn, http.ConnState)
	// Private says which types are not served here, since each client is to get
	// them over an upstream stream of its own (K6); nil means none.
	Private func(*resource.Type) bool
	// NodeName names this relay node to clients (K7). Required.
	NodeName string
	// V2 serves the paths of version 2 as well, each with the resources of its
	// version (J1, J2).
	V2 bool
	// Hold is how long a poll waits for news (H4). Default 900 ms; negative means
	// not at all.
	Hold time.Duration
	// MaxReceiveBytes bounds the body of one request. Default 4 MiB.
	MaxReceiveBytes int64
	// MaxNames bounds the names that one request asks for. Default 200,000.
	MaxNames int
	// BodyBytes bounds the encoded answers that are kept for sharing. Default
	// 64 MiB.
	BodyBytes int64
	// Remember is for how long a client that polls is shown after its last poll, at
	// least: for three of its own pauses if these are longer. Default 1 min.
	Remember time.Duration
	// RememberBytes bounds what is remembered for that, of all clients together; the
	// one that polled last goes last. Default 64 MiB.
	RememberBytes int64
	// ReadTimeout bounds how long a client may take to send a request. Default
	// 10 s.
	ReadTimeout time.Duration
	// SendTimeout bounds how long it may take to read the answer. Default 30 s.
	SendTimeout time.Duration
	// Limits are those on what clients take of the node. Nil means none.
	Limits *limit.Limiter
	// Meter makes the metrics; nil means none.
	Meter metric.Meter
	// Logger is for refusals and what cannot be encoded; nil means none.
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
	cfg     Config
	types   map[string]*resource.Type // by path
	v2      *v2Messages               // nil where version 2 is not served
	answers *bodycache.Cache[contentKey, answer]
	metrics *metrics
	roster  *roster
	http    *http.Server

	connections connections // a lock of its own

	// drained is closed when polls should not wait any more than over, which is
	// set before that and not changed afterwards.
	drained chan struct{}
	over    time.Duration
}

// New makes a Server. It fails where cfg lacks a required field.
func New(cfg Config) (*Server, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, types: make(map[string]*resource.Type), answers: bodycache.New[contentKey, answer](cfg.BodyBytes),
		connections: connections{release: make(map[net.Conn]func())}, drained: make(chan struct{}),
		roster: newRoster(cfg.Cache, cfg.Remember, cfg.RememberBytes),
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
		WriteTimeout:      cfg.ReadTimeout + cfg.Hold + cfg.SendTimeout, // handlers set a nearer one
		IdleTimeout:       2 * time.Minute,                              // most clients poll more often
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// Serve answers the connections of l, which it closes in the end. It returns nil
// after [Server.Drain] or [Server.Close], and otherwise why it cannot go on.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain takes no new connections, lets the polls that wait end over the given
// time, so that they do not all come to the other nodes at once, and returns when
// none are left, or with ctx's error. It is called once.
func (s *Server) Drain(ctx context.Context, over time.Duration) error {
	s.over = over
	close(s.drained)
	return s.http.Shutdown(ctx)
}

// Shrink forgets what is kept only to save work.
func (s *Server) Shrink() { s.answers.Clear() }

// CloseIdle closes the connections on which no request is being answered. Clients that
// poll connect again for their next poll.
func (s *Server) CloseIdle() {
	s.http.SetKeepAlivesEnabled(false) // which closes them
	s.http.SetKeepAlivesEnabled(true)
}

// Close ends everything at once.
func (s *Server) Close() { _ = s.http.Close() }
