package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// connections is how many connections a node has to one server at most, besides those for hints.
const connections = 8

// connect creates the client for cfg. It opens no connection yet. Its connections are closed when
// life ends.
func connect(life context.Context, cfg Config) (redis.UniversalClient, error) {
	if cfg.Mode == "" {
		cfg.Mode = Standalone
	}
	at, err := parse(cfg.URL, cfg.Mode)
	if err != nil {
		return nil, err
	}
	if at.tls && cfg.Dial != nil {
		return nil, errors.New("redis: the URL says rediss://, and connections are made by Dial: expected redis://")
	}
	sentinelPassword := ""
	if cfg.SentinelPasswordFile != "" {
		if sentinelPassword, err = readPassword(cfg.SentinelPasswordFile); err != nil {
			return nil, err
		}
	}
	options := &redis.UniversalOptions{
		Addrs:            at.addrs,
		DB:               at.database,
		Username:         at.user,
		Password:         at.password,
		MasterName:       cfg.Master,
		SentinelPassword: sentinelPassword,
		Dialer:           dialer(life, cfg, at.tls),

		// Only plain commands: proxies and old servers do not support version 3 of the protocol.
		Protocol:         2,
		DisableIdentity:  true,
		PipelinePoolSize: -1,

		// The context of each call has the deadline. These timeouts apply where there is none:
		// hints, and commands of the library itself. Only the caller can decide about retries.
		ContextTimeoutEnabled: true,
		DialTimeout:           cfg.Timeout,
		PoolTimeout:           cfg.Timeout,
		ReadTimeout:           readTimeout,
		WriteTimeout:          readTimeout,
		MaxRetries:            -1,
		DialerRetries:         1,

		PoolSize:        connections,
		MaxActiveConns:  connections,
		ConnMaxIdleTime: 5 * time.Minute,
		ReadBufferSize:  8 << 10,
		WriteBufferSize: 8 << 10,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if cfg.PasswordFile != "" {
		if _, err := readPassword(cfg.PasswordFile); err != nil {
			return nil, err
		}
		options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := readPassword(cfg.PasswordFile)
			return at.user, password, err
		}
	}

	// The library logs each failed attempt to standard error, for the whole program. Calls return
	// the same errors.
	redis.SetLogger(&logging.VoidLogger{})
	switch cfg.Mode {
	case Standalone:
		return redis.NewClient(options.Simple()), nil
	case Sentinel:
		return redis.NewFailoverClient(options.Failover()), nil
	case Cluster:
		cluster := options.Cluster()
		cluster.DisableRoutingPolicies = true // they request the list of all commands
		client := redis.NewClusterClient(cluster)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(bounded{cfg.Timeout}) })
		return client, nil
	}
	return nil, fmt.Errorf("redis: the mode is %q, expected %s, %s or %s", cfg.Mode, Standalone, Sentinel, Cluster)
}

// readTimeout bounds operations without a deadline.
const readTimeout = time.Minute

// bounded gives a command without a deadline the timeout of a call. A cluster client requests the
// slots from a master without a deadline, and asks no other master until that one answers or fails,
// even if it is the one that no longer answers.
type bounded struct{ timeout time.Duration }

func (b bounded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b bounded) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, b.timeout)
			defer cancel()
		}
		return next(ctx, cmd)
	}
}

func (b bounded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// dialer opens connections, including the TLS handshake, within the time of the context. When life
// ends they are closed, whatever waits for them: contexts do not end these waits.
func dialer(life context.Context, cfg Config, secure bool) func(context.Context, string, string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: cfg.Timeout, KeepAlive: 15 * time.Second}
	dial := plain.DialContext
	if cfg.Dial != nil {
		dial = func(ctx context.Context, _, addr string) (net.Conn, error) { return cfg.Dial(ctx, addr) }
	}
	if secure {
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			config := &tls.Config{MinVersion: tls.VersionTLS12}
			if cfg.TLS != nil {
				host, _, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				config = cfg.TLS(host)
			}
			return (&tls.Dialer{NetDialer: plain, Config: config}).DialContext(ctx, network, addr)
		}
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		m := &closeOnShutdown{c, context.AfterFunc(life, func() { _ = c.Close() })}
		if socket, ok := c.(syscall.Conn); ok {
			return &closeOnShutdownSocket{m, socket}, nil
		}
		return m, nil
	}
}

// closeOnShutdown is a connection that is closed when a context ends.
type closeOnShutdown struct {
	net.Conn
	forget func() bool
}

// Close closes the connection, unless the context has ended.
func (m *closeOnShutdown) Close() error {
	m.forget()
	if err := m.Conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// closeOnShutdownSocket is one for which the library can check whether the other side has closed
// it.
type closeOnShutdownSocket struct {
	*closeOnShutdown
	syscall.Conn
}

func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("redis: cannot read the password, %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
