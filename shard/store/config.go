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

// Config is how to connect to Redis.
type Config struct {
	// URL is redis://[user[:password]@]host:port[/database], rediss:// for TLS, or
	// unix://[user[:password]@]PATH. Further addresses follow as ?addr=host:port&addr=host:port.
	URL string
	// Mode is the kind of servers at the addresses. Empty means Standalone.
	Mode Mode
	// Master is the name of the master that the sentinels watch, with Sentinel.
	Master string
	// PasswordFile contains the password, SentinelPasswordFile that of the sentinels. The first is
	// read for each connection, so that a new password is used.
	PasswordFile         string
	SentinelPasswordFile string
	// TLS is for rediss://. It is called for each connection to a host. nil means the certificate
	// authorities of the system, and no client certificate.
	TLS func(host string) *tls.Config
	// Dial opens connections. nil means TCP; tests in virtual time have a network of their own,
	// without TLS.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Prefix is the prefix of all names: letters, digits, - and _.
	Prefix string
	// Timeout bounds a call, with 1 s more for each 8 MiB that it sends. More than zero.
	Timeout time.Duration
	// Logger logs changes of state. Required.
	Logger *slog.Logger
	// Meter creates the metrics. Required.
	Meter metric.Meter
}

// Mode is the kind of servers at the addresses.
type Mode string

// The modes: one server; the sentinels that watch it and its replicas; and the masters of a
// cluster, at least some of them.
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
