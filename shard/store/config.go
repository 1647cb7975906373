package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// Config is how to reach a Redis.
type Config struct {
	// URL is redis://[user[:password]@]host:port[/database], rediss:// for TLS, or
	// unix://[user[:password]@]PATH. Further addresses follow as
	// ?addr=host:port&addr=host:port.
	URL string
	// Mode says what the addresses are. Empty means Standalone.
	Mode Mode
	// Master is the name of the master that the sentinels watch, with Sentinel.
	Master string
	// PasswordFile holds the password, SentinelPasswordFile that of the sentinels.
	// The first is read for each connection, so that a new password is taken up.
	PasswordFile         string
	SentinelPasswordFile string
	// TLS is for rediss://, asked anew for each connection to a host. nil means the
	// authorities of the system, and no certificate of our own.
	TLS func(host string) *tls.Config
	// Dial makes connections. nil means TCP; tests in virtual time have a network of
	// their own, without TLS.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prefix is what all names begin with. Letters, digits, - and _.
	Prefix string
	// Timeout is how long a call may take, with 1 s more for each 8 MiB that it
	// sends. More than zero.
	Timeout time.Duration
	// Logger gets what changes. Required.
	Logger *slog.Logger
	// Meter is where the metrics are made. Required.
	Meter metric.Meter
}

// Mode is what the addresses of a Redis are.
type Mode string

// The modes: one server, the sentinels that watch it and its replicas, and the
// masters of a cluster, some of them at least.
const (
	Standalone Mode = "standalone"
	Sentinel   Mode = "sentinel"
	Cluster    Mode = "cluster"
)

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (c Config) check() error {
	switch {
	case !prefixForm.MatchString(c.Prefix):
		return fmt.Errorf("redis: the prefix is %q, expected letters, digits, - and _", c.Prefix)
	case c.Timeout <= 0:
		return fmt.Errorf("redis: the timeout is %s, expected more than zero", c.Timeout)
	case c.Logger == nil || c.Meter == nil:
		return errors.New("redis: expected a logger and a meter")
	case c.Mode == Sentinel && c.Master == "":
		return errors.New("redis: expected the name of the master that the sentinels watch")
	}
	return nil
}
