package relay

import (
	"errors"
	"net"
	"net/http"

	"xdsrelay/relay/admin"
)

// machinePort is the port for programs that watch the node. It is nil where that
// is off.
type machinePort struct {
	server   *http.Server
	listener net.Listener
}

// buildMachinePort makes the server and binds its port.
func (n *Node) buildMachinePort() error {
	address := n.cfg.Metrics.Address
	if address == "" {
		return nil
	}
	listener, err := n.listenAt("metrics.address", address)
	if err != nil {
		return err
	}
	server := admin.NewServer(admin.Machines(n.Ready, n.metrics.Registry()), n.log)
	server.WriteTimeout = server.ReadTimeout // nothing here takes long
	n.machines = &machinePort{server, n.limits.ListenOperators(listener)}
	return nil
}

// serve serves until the port is closed, and returns nil then.
func (p *machinePort) serve() error {
	if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// MetricsAddr is the address of the port for metrics and health, with the real
// port; empty if off.
func (n *Node) MetricsAddr() string {
	if n.machines == nil {
		return ""
	}
	return n.machines.listener.Addr().String()
}

// releaseMachinePort may be called again, and on a node half made.
func (n *Node) releaseMachinePort() {
	if n.machines == nil {
		return
	}
	_ = n.machines.server.Close()
	_ = n.machines.listener.Close() // the server has closed it if it ever served
}
