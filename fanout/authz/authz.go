// Package authz lets clients in, or refuses them. It asks whether the certificate of a
// connection is still good and what the rules of authorize say, for every service
// that clients are offered: streams, polls, load reports, client status. Who is
// refused is counted by rule, and logged once.
//
// The health and reflection services are not behind it. They are asked by probes and
// tools that have no Node, and tell nothing of any client or key.
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

// Config says how a Gate behaves. It is not changed after [New].
type Config struct {
	// Policy returns the rules that are in force now. Required.
	Policy func() *authorize.Policy
	// KeepUntrusted lets clients stay whose certificate is no longer good.
	KeepUntrusted bool
	// Meter makes the metrics; nil means none.
	Meter metric.Meter
	// Logger is told who is refused; nil means nobody is.
	Logger *slog.Logger
}

// Gate decides about clients. All methods are safe for concurrent use; those of a nil
// Gate let in everybody.
type Gate struct {
	// Fixed after construction.
	cfg     Config
	refused metric.Int64Counter

	log refusalLog
}

// New makes a Gate. It fails where cfg lacks a required field.
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

// Client is what is known of a connection.
type Client struct {
	aggregation.Peer

	auth credentials.AuthInfo
}

// ClientOf is the client of a connection; p may be nil.
func ClientOf(p *peer.Peer) Client {
	if p == nil {
		return Client{}
	}
	return Client{aggregation.PeerFrom(p.AuthInfo, p.Addr), p.AuthInfo}
}

// Policy is what is in force now; nil lets in everybody.
func (g *Gate) Policy() *authorize.Policy {
	if g == nil {
		return nil
	}
	return g.cfg.Policy()
}

// KeepsUntrusted reports whether clients may stay whose certificate is no longer good.
func (g *Gate) KeepsUntrusted() bool { return g == nil || g.cfg.KeepUntrusted }

// Admit decides whether c may be what node says, by a policy that was in force a
// moment ago. The error is a gRPC status: PERMISSION_DENIED with the rule's name, or
// UNAUTHENTICATED where the certificate is no longer good. node may be nil where the
// client needs none, and is neither changed nor kept.
func (g *Gate) Admit(p *authorize.Policy, node *corev3.Node, c Client) error {
	return g.decide(p, node, c, false)
}

// Recheck is Admit for a client that is in already.
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
			return status.Error(codes.Unauthenticated, "the certificate of this client is not good any more: "+err.Error())
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

// refuse counts a refusal and logs it if it is new.
func (g *Gate) refuse(rule, reason string, node *corev3.Node, c Client, again bool, err error) {
	g.refused.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("rule", rule), attribute.String("reason", reason), attribute.Bool("again", again)))
	g.log.refused(time.Now(), rule, reason, node.GetId(), c, err)
}

// errExpired is said where nothing but the date is known of a certificate.
var errExpired = errors.New("it has expired")

// trusted tells whether the certificate would be taken now.
func (c Client) trusted() error {
	if at := c.Expires(); !at.IsZero() && time.Now().After(at) {
		return errExpired
	}
	return aggregation.StillTrusted(c.auth)
}

// Expires is when the certificate of c ends; zero for a client without one.
func (c Client) Expires() time.Time { return aggregation.Expires(c.auth) }
