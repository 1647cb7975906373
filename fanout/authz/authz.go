// Package authz authorizes clients. For each service that clients use (streams, polls, load
// reports, client status) it checks whether the certificate of the connection is still valid and
// whether the rules of `authorize` allow the Node. It counts rejections by rule and logs each once.
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
	"context"
	"errors"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

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
	refused metric.Int64Counter

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
	g.refused, err = cfg.Meter.Int64Counter("xdsrelay.authorize.refused", metric.WithDescription(
		"Clients refused because they may not be what they say: by the rule and the reason (denied, no_rule, failed, untrusted), and by whether they were in already."))
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
			return status.Error(codes.Unauthenticated, "the client's certificate is no longer valid: "+err.Error())
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
	g.refused.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("rule", rule), attribute.String("reason", reason), attribute.Bool("again", again)))
	g.log.refused(time.Now(), rule, reason, node.GetId(), c, err)
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
