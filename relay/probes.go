package relay

import (
	"errors"
	"fmt"
	"net/http"

	"xdsrelay/relay/admin"
)

// buildProbePort makes the server of the port for metrics and health checks, and binds the port.
func (n *Node) buildProbePort() error {
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
	n.probes = n.limits.ListenOperators(listener)
	n.add(part{
		serve: func() error {
			if err := server.Serve(n.probes); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("metrics port %s: %w", n.MetricsAddr(), err)
			}
			return nil
		},
		stop: func() {
			_ = server.Close()
			_ = n.probes.Close() // the server has closed it if it ever served
		},
	})
	return nil
}

// MetricsAddr is the address of the port for metrics and health checks, with the actual port. It is
// empty if the port is off.
func (n *Node) MetricsAddr() string {
	if n.probes == nil {
		return ""
	}
	return n.probes.Addr().String()
}
