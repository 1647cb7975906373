package relay

import (
	"fmt"
	"net"
	"strings"

	"xdsrelay/fanout"
	"xdsrelay/relay/config"
)

// clientPort is a listener for xDS clients.
type clientPort struct {
	name     string
	listener net.Listener
}

// listenForClients binds the ports for xDS clients, the first one first.
func (n *Node) listenForClients() error {
	for i, l := range n.cfg.AllListeners() {
		field := "listen.address"
		if i > 0 {
			field = fmt.Sprintf("listeners[%d].address", i-1)
		}
		listener, err := n.listenAt(field, l.Address)
		if err != nil {
			return err
		}
		n.clients = append(n.clients, clientPort{l.Name, n.fanout.Listen(n.limits.Listen(listener, true), fanout.Listener{Name: l.Name})})
	}
	return nil
}

// Addr is the address of the first xDS port, with the real port.
func (n *Node) Addr() string { return n.ListenerAddr(config.DefaultName) }

// ListenerAddr is the address of the xDS port of that name, with the real port; empty
// if there is none. The first one is called [config.DefaultName].
func (n *Node) ListenerAddr(name string) string {
	for _, p := range n.clients {
		if p.name == name {
			return p.listener.Addr().String()
		}
	}
	return ""
}

// describeListeners lists the xDS ports for the log.
func (n *Node) describeListeners() string {
	var all []string
	for _, p := range n.clients {
		all = append(all, p.listener.Addr().String())
	}
	return strings.Join(all, ",")
}
