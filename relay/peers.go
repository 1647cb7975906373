package relay

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"xdsrelay/fanout"
	"xdsrelay/fanout/limit"
	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/config"
	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/secure"
)

// peerPort is where the other nodes of the tier connect.
type peerPort struct {
	// Fixed after construction.
	listener net.Listener
	server   *grpc.Server // nil until the node is made
	door     *door
	// What this node shows of itself when it connects with others.
	credentials credentials.TransportCredentials // nil for plaintext
	token       credentials.PerRPCCredentials    // nil for none
	serving     *secure.Credentials              // of the port itself; nil for plaintext
	// proven means that each caller has to prove that it is a node of the tier, by the token or by a
	// certificate.
	proven bool
}

// newPeerPort binds the port, and reads what it takes to let others in and to be let
// in.
func (n *Node) newPeerPort() (p *peerPort, err error) {
	cfg := n.cfg.Tier.Peer
	p = &peerPort{}
	if p.door, err = newDoor(cfg, n.metrics.Meter(), n.part(logs.Security)); err != nil {
		return nil, err
	}
	if p.door.token != nil {
		p.token, p.proven = tokenCredentials{p.door.token}, true
	}
	if cfg.TLS.CertFile != "" || cfg.TLS.WorkloadAPI != "" {
		both, err := n.certificates(cfg.TLS.Certificates)
		if err != nil {
			return nil, fmt.Errorf("tier.peer.tls: %w", err)
		}
		both.ServerName, both.PeerIDs = cfg.TLS.ServerName, cfg.TLS.SPIFFEIDs
		server, err := secure.NewServer(both, n.part(logs.Security))
		if err != nil {
			return nil, err
		}
		client, err := secure.NewClient(both, n.part(logs.Security))
		if err != nil {
			return nil, err
		}
		p.proven = p.proven || server.VerifiesClients()
		n.certs.watch("tier.peer", server.Validity)
		p.serving, p.credentials = server.Credentials(p.door.handshakeFailed), client.Credentials()
	}
	listener, err := n.listenAt("tier.peer.address", cfg.Address)
	if err != nil {
		return p, err
	}
	p.listener = n.limits.ListenPeers(listener, p.serving == nil)
	n.add(part{stop: func() { _ = p.listener.Close() }}) // the server has closed it if it ever served
	return p, nil
}

// buildPeerServer makes the gRPC server of the peer port.
func (n *Node) buildPeerServer() {
	p := n.peers
	alive := fanout.KeepaliveParams()
	alive.MaxConnectionIdle = n.cfg.Downstream.IdleTimeout // a stranger without the token has no stream
	options := append(n.fanout.ServerOptions(), grpc.KeepaliveParams(alive), grpc.WaitForHandlers(true), grpc.MaxRecvMsgSize(math.MaxInt32), grpc.InTapHandle(p.door.admit))
	if p.serving != nil {
		options = append(options, grpc.Creds(p.serving))
	}
	p.server = grpc.NewServer(options...)
	n.fanout.RegisterPeers(p.server)
	n.tier.Register(p.server)
	n.status.Own().Register(p.server)
	n.add(part{
		serve: func() error {
			if err := p.server.Serve(p.listener); err != nil {
				return fmt.Errorf("peer port %s: %w", n.PeerAddr(), err)
			}
			return nil
		},
		stop: p.server.Stop,
	})
}

// endUntrusted closes the connections of nodes whose certificates are good no more:
// they have all keys, and may stand for ever.
func (p *peerPort) endUntrusted(log *slog.Logger) {
	if p.serving == nil {
		return
	}
	for _, from := range p.serving.EndUntrusted() {
		log.Warn("peer connection closed: the certificate is no longer valid", "peer", from.String())
	}
}

// door lets in those that have the token, where there is one.
type door struct {
	// Fixed after construction.
	token      *secure.Token // nil for none
	rejections *rejection.Counter
	log        *slog.Logger

	lines    limit.Lines // of the log
	events   limit.Lines // of calls without the token
	failures limit.Lines // of the log, of handshakes
}

// handshakeFailed logs now and then why a node was not let in, and on which side that is.
func (d *door) handshakeFailed(from net.Addr, err error) {
	word, hint := secure.Why(err)
	d.rejections.Add(rejection.Peer, rejection.TLS(word))
	if more, due := d.failures.Next(time.Now(), logPause); due {
		d.log.Warn("TLS handshake on the peer port failed", "peer", from.String(), "reason", word, "error", err, "hint", hint, "more_since_last", more)
	}
}

func newDoor(cfg config.Peer, meter metric.Meter, log *slog.Logger) (d *door, err error) {
	d = &door{log: log}
	if cfg.TokenFile != "" {
		if d.token, err = secure.NewToken(cfg.TokenFile, log); err != nil {
			return nil, err
		}
	}
	if d.rejections, err = rejection.New(meter); err != nil {
		return nil, err
	}
	d.rejections.Export(rejection.Peer, noToken)
	return d, nil
}

// noToken is the reason for a call without the token of the tier, as a label of a metric.
const noToken = "token"

// The token travels as most do.
const (
	authorization = "authorization"
	bearer        = "Bearer "
)

// tokenCredentials show the token.
type tokenCredentials struct{ token *secure.Token }

func (c tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{authorization: bearer + c.token.Current()}, nil
}

// RequireTransportSecurity is false: the configuration says whether plaintext will do.
func (tokenCredentials) RequireTransportSecurity() bool { return false }

// errNoToken says nothing of what would be right.
var errNoToken = status.Error(codes.Unauthenticated, "the peer port requires the tier's token")

// logPause is between two lines about calls that were refused.
const logPause = time.Minute

// admit refuses who has not the token, before anything of a call is read: messages on
// this port have no bound.
func (d *door) admit(ctx context.Context, call *tap.Info) (context.Context, error) {
	if d.token == nil {
		return ctx, nil
	}
	for _, v := range call.Header.Get(authorization) {
		if given, ok := strings.CutPrefix(v, bearer); ok && d.token.Matches(given) {
			return ctx, nil
		}
	}
	d.rejections.Add(rejection.Peer, noToken)
	if more, due := d.lines.Next(time.Now(), logPause); due {
		from := ""
		if p, ok := peer.FromContext(ctx); ok {
			from = p.Addr.String()
		}
		about := []any{"peer", from, "method", call.FullMethodName, "more_since_last", more}
		if _, due := d.events.Next(time.Now(), limit.EventPause); due {
			about = append(about, events.Key, events.PeersRejected)
		}
		d.log.Warn("peer call refused: missing or wrong token of the tier", about...)
	}
	return nil, errNoToken
}
