package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"xdsrelay/relay/trace"
)

// WildcardForm is how a wildcard subscription is written (D10).
type WildcardForm int

const (
	// WildcardLegacy sends no names as long as the type has no names on the stream, and "*"
	// otherwise. Every server understands it.
	WildcardLegacy WildcardForm = iota
	// WildcardStar always sends "*".
	WildcardStar
)

// Backoff is the pause between streams that end without a response (C13), and between attempts to
// connect. A zero field means its default.
type Backoff struct {
	// Initial is the first pause. Default 1 s.
	Initial time.Duration
	// Multiplier is the factor from one pause to the next. At least 1; default 1.6.
	Multiplier float64
	// Jitter is the share by which a pause is randomly longer or shorter. Below 1; default 0.2,
	// negative for none.
	Jitter float64
	// Max bounds the pause, before jitter. Default 30 s.
	Max time.Duration
}

// ControlPlaneConfig is the address of a control plane and how to communicate with it. It must not
// be changed after [NewControlPlane].
type ControlPlaneConfig struct {
	// Addresses are gRPC targets ("host:port", "dns:///…", "unix:…"), best first. The relay uses a
	// later one only while no better one can be reached and clients want resources that are not
	// cached (C15). Required.
	Addresses []string
	// Delta selects the incremental variant; otherwise SotW, over which types without a SotW form
	// do not exist (D8).
	Delta bool
	// V2 selects version 2 of the transport, for control planes that support no other. It does not
	// affect resources: types of both versions can be requested over either transport (J1, J4).
	V2 bool
	// Wildcard is the form of wildcard subscriptions.
	Wildcard WildcardForm
	// MaxReceiveBytes bounds one response (C17). Default 64 MiB.
	MaxReceiveBytes int
	// MaxSendBytes bounds one request, as far as it can be divided: delta requests to a control
	// plane. Default 3 MiB, since gRPC servers accept 4 MiB by default.
	MaxSendBytes int
	// KeepaliveTime is how long a connection may be silent before the relay sends a ping: at least
	// 10 s, or negative for no pings. Default [permittedKeepalive], and 30 s for another node
	// (C17). KeepaliveTimeout is how long to wait for the answer; default 10 s.
	KeepaliveTime, KeepaliveTimeout time.Duration
	// ConnectTimeout bounds one attempt to connect. Default 5 s, so that the clients of an
	// unreachable control plane are notified in time (K15).
	ConnectTimeout time.Duration
	// SendTimeout ends a stream whose server reads no requests. Default 30 s.
	SendTimeout time.Duration
	// AbsentAfter is how long a connected control plane may be silent about a name until the name
	// counts as absent (C12). Default 15 s.
	AbsentAfter time.Duration
	// Backoff paces reconnects (C13).
	Backoff Backoff
	// Credentials secure the connection. Default: plaintext.
	Credentials credentials.TransportCredentials
	// DialOptions are added to those made from the fields above, and override them.
	DialOptions []grpc.DialOption
	// Peer is the name of this node if the "control plane" is another node of the tier; then
	// [ControlPlane.Follow] is used. Empty otherwise.
	Peer string
	// Name distinguishes the control plane from others in metrics. Empty for the only or first one.
	Name string
	// Tracer records a span for each attempt to open a stream; nil for none.
	Tracer *trace.Tracer
	// Meter creates the instruments. Default: none.
	Meter metric.Meter
	// Logger logs each change of the connection's state. Default: none.
	Logger *slog.Logger
}

const (
	// permittedKeepalive is slightly more than five minutes, the shortest interval between pings
	// that servers of grpc-go, grpc-java and gRPC C-core permit by default.
	permittedKeepalive = 5*time.Minute + 30*time.Second
	// leastKeepalive is the shortest interval that the client of grpc-go accepts.
	leastKeepalive = 10 * time.Second
	// peerKeepalive is for other nodes, whose servers permit it.
	peerKeepalive = 30 * time.Second
)

func (c *ControlPlaneConfig) setDefaults() error {
	if len(c.Addresses) == 0 {
		return errors.New("control plane: no address, expected at least one")
	}
	ping := permittedKeepalive
	if c.Peer != "" {
		c.Delta, c.Wildcard, ping = true, WildcardStar, peerKeepalive
	}
	c.KeepaliveTime = cmp.Or(c.KeepaliveTime, ping)
	for i, a := range c.Addresses {
		if a == "" || slices.Contains(c.Addresses[:i], a) {
			return fmt.Errorf("control plane: address %d is %q, expected each address once and none empty", i+1, a)
		}
	}
	for _, d := range []struct {
		name string
		v    *time.Duration
		def  time.Duration
	}{
		{"keepalive timeout", &c.KeepaliveTimeout, 10 * time.Second},
		{"connect timeout", &c.ConnectTimeout, 5 * time.Second},
		{"send timeout", &c.SendTimeout, 30 * time.Second},
		{"time until a name counts as absent", &c.AbsentAfter, 15 * time.Second},
		{"initial backoff", &c.Backoff.Initial, time.Second},
		{"longest backoff", &c.Backoff.Max, 30 * time.Second},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < 0 {
			return fmt.Errorf("control plane: the %s is %v, expected more than 0", d.name, *d.v)
		}
	}
	if c.KeepaliveTime > 0 && c.KeepaliveTime < leastKeepalive {
		return fmt.Errorf("control plane: the keepalive time is %v, expected at least %v, or a negative one for no keepalive pings", c.KeepaliveTime, leastKeepalive)
	}
	if c.MaxReceiveBytes == 0 {
		c.MaxReceiveBytes = 64 << 20
	}
	if c.MaxReceiveBytes < 0 {
		return fmt.Errorf("control plane: the receive limit is %d bytes, expected more than 0", c.MaxReceiveBytes)
	}
	if c.MaxSendBytes == 0 {
		c.MaxSendBytes = 3 << 20
	}
	if c.Peer != "" {
		c.MaxSendBytes = math.MaxInt // nodes accept any size
	}
	if c.MaxSendBytes < leastSend {
		return fmt.Errorf("control plane: the send limit is %d bytes, expected at least %d", c.MaxSendBytes, leastSend)
	}
	if c.Wildcard != WildcardLegacy && c.Wildcard != WildcardStar {
		return fmt.Errorf("control plane: wildcard form %d is unknown", c.Wildcard)
	}
	if c.Credentials == nil {
		c.Credentials = insecure.NewCredentials()
	}
	if c.Meter == nil {
		c.Meter = noop.NewMeterProvider().Meter("")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c.Backoff.setDefaults()
}

func (b *Backoff) setDefaults() error {
	if b.Multiplier == 0 {
		b.Multiplier = 1.6
	}
	if b.Jitter == 0 {
		b.Jitter = 0.2
	}
	b.Jitter = max(b.Jitter, 0)
	switch {
	case b.Multiplier < 1:
		return fmt.Errorf("control plane: the backoff multiplier is %v, expected at least 1", b.Multiplier)
	case b.Jitter >= 1:
		return fmt.Errorf("control plane: the backoff jitter is %v, expected less than 1", b.Jitter)
	case b.Max < b.Initial:
		return fmt.Errorf("control plane: the longest backoff is %v, expected at least the initial one, %v", b.Max, b.Initial)
	}
	return nil
}
