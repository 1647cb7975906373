package relay

import (
	"fmt"
	"net"
	"os"
	"strings"

	"xdsrelay/fanout"
	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
)

// clientPort is a listener for xDS clients.
type clientPort struct {
	name     string
	listener net.Listener
}

// address is where clients reach it, in the form in which gRPC dials.
func (p clientPort) address() string {
	a := p.listener.Addr()
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

// listenForClients binds the ports for xDS clients, the first one first.
func (n *Node) listenForClients() error {
	shake, err := newHandshakes(n.metrics.Meter(), n.part(logs.Security))
	if err != nil {
		return err
	}
	for i, l := range n.cfg.AllListeners() {
		section := n.cfg.ListenerPath(i)
		how := fanout.Listener{Name: l.Name}
		server, err := n.secureServer(section, l.TLS)
		if err != nil {
			return fmt.Errorf("%s.tls: %w", section, err)
		}
		if server != nil {
			how.Secure = shake.by(l.Name, server)
		}
		listener, err := n.listenForClientsAt(section+".address", l)
		if err != nil {
			return err
		}
		p := clientPort{l.Name, n.fanout.Listen(n.limits.Listen(listener, server == nil), how)}
		n.clients = append(n.clients, p)
		n.add(part{
			serve: func() error {
				if err := n.grpc.Serve(p.listener); err != nil {
					return fmt.Errorf("xDS port %q, %s: %w", p.name, p.listener.Addr(), err)
				}
				return nil
			},
			stop: func() { _ = p.listener.Close() }, // the server has closed it if it ever served
		})
	}
	return nil
}

// listenForClientsAt binds a port or makes a Unix socket.
func (n *Node) listenForClientsAt(field string, l config.NamedListener) (net.Listener, error) {
	path := config.SocketPath(l.Address)
	if path == "" {
		return n.listenAt(field, l.Address)
	}
	listener, err := listenUnix(path, os.FileMode(l.SocketMode))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return listener, nil
}

// Addr is the address of the first xDS port, with the real port.
func (n *Node) Addr() string { return n.clients[0].address() }

// ListenerAddr is the address of the xDS port of that name, with the real port; empty
// if there is none. That of the section listener is called [config.DefaultName].
func (n *Node) ListenerAddr(name string) string {
	for _, p := range n.clients {
		if p.name == name {
			return p.address()
		}
	}
	return ""
}

// describeListeners lists the xDS ports for the log.
func (n *Node) describeListeners() string {
	var all []string
	for _, p := range n.clients {
		all = append(all, p.address())
	}
	return strings.Join(all, ",")
}
