package relay

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"xdsrelay/fanout"
	"xdsrelay/fanout/rest"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/secure"
)

// polling is what serves clients that poll. It is nil where that is off.
type polling struct {
	server   *rest.Server
	listener net.Listener
}

// buildPolling makes the server and binds its port.
func (n *Node) buildPolling() (err error) {
	r := n.cfg.REST
	if r.Address == "" {
		return nil
	}
	secured, err := n.secureServer("rest", r.TLS)
	if err != nil {
		return fmt.Errorf("rest.tls: %w", err)
	}
	cfg := rest.Config{
		Cache: n.cache, Rules: n.rules.Load, Gate: n.gate, Listener: config.RESTName, NodeName: n.name, Private: n.private,
		Hold: orNone(r.PollTimeout), Remember: r.ClientTTL, MaxReceiveBytes: int64(n.cfg.Limits.MaxRESTRequestSize), BodyBytes: int64(n.cfg.Limits.MaxRESTCacheSize),
		V2: n.cfg.Downstream.XDSV2, MaxNames: n.cfg.Limits.MaxNamesPerStream, SendTimeout: n.cfg.Downstream.SendTimeout,
		Limits: n.limits, Meter: n.metrics.Meter(), Logger: n.part(logs.Clients),
	}
	if secured != nil {
		shake, err := newHandshakes(n.metrics.Meter(), n.part(logs.Security))
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		cfg.Connection, cfg.StillTrusted, cfg.ConnState = secured.Keep, secure.StillTrusted, shake.closed(config.RESTName)
	}
	server, err := rest.New(cfg)
	if err != nil {
		return err
	}
	listener, err := n.listenAt("rest.address", r.Address)
	if err != nil {
		return err
	}
	listener = n.limits.Listen(listener, false)
	if secured != nil {
		listener = tls.NewListener(listener, secured.Config("http/1.1"))
	}
	n.polling = &polling{server, listener}
	n.add(part{
		serve: func() error {
			if err := server.Serve(listener); err != nil {
				return fmt.Errorf("REST port %s: %w", n.RESTAddr(), err)
			}
			return nil
		},
		drain: func(ctx context.Context) {
			if err := server.Drain(ctx, n.settings.drain().Duration); err != nil {
				n.log.Warn("drain time is over: canceling remaining polls")
			}
		},
		stop: func() {
			server.Close()
			_ = listener.Close() // the server has closed it if it ever served
		},
	})
	return nil
}

// RESTAddr is the address of the port for clients that poll, with the real port;
// empty if off.
func (n *Node) RESTAddr() string {
	if n.polling == nil {
		return ""
	}
	return n.polling.listener.Addr().String()
}

// everyClient are the clients of this node: those with streams, and those that poll.
func (n *Node) everyClient() []fanout.Client {
	clients := n.fanout.Clients()
	if n.polling != nil {
		clients = append(clients, n.polling.server.Clients()...)
	}
	return clients
}

// everyStream describes them, and the streams of other nodes.
func (n *Node) everyStream() []fanout.StreamInfo {
	streams := append(n.fanout.Streams(), n.fanout.PeerStreams()...)
	if n.polling != nil {
		streams = append(streams, n.polling.server.Streams()...)
	}
	return streams
}
