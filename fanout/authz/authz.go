// Package authz authorizes clients. For each service that clients use (streams, polls, load
// reports, client status) it checks whether the certificate of the connection is still valid and
// whether the rules of `authorize` allow the Node. It counts rejections by reason and logs each once.
//
// The health and reflection services are not authorized: probes and tools that have no Node call
// them, and they reveal nothing about clients or keys.
//
// # Files
//
//   - authz.go: the Gate, which decides and counts
//   - log.go: the log of rejected clients, within bounds
package authz

import (
	"errors"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/authorize"
)

// Config configures a Gate. It is not changed after [New].
type Config struct {
	// Policy returns the rules in force. Required.
	Policy func() *authorize.Policy
	// KeepUntrusted keeps clients connected after their certificate became invalid.
	KeepUntrusted bool
	// Meter makes the metrics; may be nil.
	Meter metric.Meter
	// Logger logs rejected clients; may be nil.
	Logger *slog.Logger
}

// Gate decides which clients are allowed. All methods are safe for concurrent use. A nil Gate
// allows every client.
type Gate struct {
	// Fixed after construction.
	cfg     Config
	refused *rejection.Counter

	log refusalLog
}

// New makes a Gate. It fails if cfg lacks a required field.
func New(cfg Config) (*Gate, error) {
	if cfg.Policy == nil {
		return nil, errors.New("gate: Policy is required")
	}
	if cfg.Meter == nil {
		cfg.Meter = noop.Meter{}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gate{cfg: cfg}
	var err error
	g.refused, err = rejection.New(cfg.Meter)
	if err == nil {
		err = g.log.init(cfg.Logger)
	}
	return g, err
}

// Client describes a connection.
type Client struct {
	aggregation.Peer

	auth credentials.AuthInfo
}

// ClientOf returns the client of a connection; p may be nil.
func ClientOf(p *peer.Peer) Client {
	if p == nil {
		return Client{}
	}
	return Client{aggregation.PeerFrom(p.AuthInfo, p.Addr), p.AuthInfo}
}

// Policy returns the rules in force; nil allows every client.
func (g *Gate) Policy() *authorize.Policy {
	if g == nil {
		return nil
	}
	return g.cfg.Policy()
}

// KeepsUntrusted reports whether clients stay connected after their certificate became invalid.
func (g *Gate) KeepsUntrusted() bool { return g == nil || g.cfg.KeepUntrusted }

// Admit decides whether c may use node, by policy p, which was in force a moment ago. The error is
// a gRPC status: PERMISSION_DENIED with the name of the rule, or UNAUTHENTICATED if the certificate
// is no longer valid. node may be nil if the service needs none. Admit does not change or keep it.
func (g *Gate) Admit(p *authorize.Policy, node *corev3.Node, c Client) error {
	return g.decide(p, node, c, false)
}

// Recheck is Admit for a client that was admitted before.
func (g *Gate) Recheck(p *authorize.Policy, node *corev3.Node, c Client) error {
	return g.decide(p, node, c, true)
}

func (g *Gate) decide(p *authorize.Policy, node *corev3.Node, c Client, again bool) error {
	if g == nil {
		return nil
	}
	if !again || !g.cfg.KeepUntrusted {
		if err := c.trusted(); err != nil {
			g.refuse("", "untrusted", node, c, again, err)
			return untrusted{err}
		}
	}
	if node == nil {
		node = &corev3.Node{}
	}
	err := p.Check(node, c.Peer)
	if err != nil {
		r := authorize.AsRefusal(err)
		g.refuse(r.Rule, string(r.Reason), node, c, again, err)
	}
	return err
}

// refuse counts a rejection, and logs it if it is new.
func (g *Gate) refuse(rule, reason string, node *corev3.Node, c Client, again bool, err error) {
	where := rejection.Authorization
	if again {
		where = rejection.Recheck
	}
	g.refused.Add(where, reason)
	g.log.refused(time.Now(), rule, reason, node.GetId(), c, err)
}

// untrusted is the rejection of a client whose certificate is no longer valid.
type untrusted struct{ reason error }

func (u untrusted) Error() string { return u.GRPCStatus().String() }

// GRPCStatus returns the status for the client.
func (u untrusted) GRPCStatus() *status.Status {
	return status.New(codes.Unauthenticated, "the client's certificate is no longer valid: "+u.reason.Error())
}

// Rejected reports whether err is a rejection by a Gate, which has counted it.
func Rejected(err error) bool {
	_, is := errors.AsType[untrusted](err)
	return is || authorize.AsRefusal(err) != nil
}

// errExpired is for certificates of which only the expiry is known.
var errExpired = errors.New("it has expired")

// trusted returns an error unless the certificate would be accepted now.
func (c Client) trusted() error {
	if at := c.Expires(); !at.IsZero() && time.Now().After(at) {
		return errExpired
	}
	return aggregation.StillTrusted(c.auth)
}

// Expires returns when the certificate of c expires; zero for a client without one.
func (c Client) Expires() time.Time { return aggregation.Expires(c.auth) }
