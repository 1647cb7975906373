package relay

import (
	"net"
	"net/netip"
	"net/url"
)

// adminURL is where operators reach the admin port from other machines: at the host that the port
// listens on, or if that is all addresses, at the host by which other nodes reach this one. It is
// empty if only this machine reaches the port, unless the whole tier is on one machine.
func (n *Node) adminURL() string {
	host, port, err := net.SplitHostPort(n.AdminAddr())
	if err != nil {
		return ""
	}
	peer, _, _ := net.SplitHostPort(n.tier.Self().Peer)
	if bound, err := netip.ParseAddr(host); err == nil {
		switch {
		case bound.IsUnspecified():
			host = peer
		case bound.IsLoopback():
			if at, err := netip.ParseAddr(peer); peer != "localhost" && (err != nil || !at.IsLoopback()) {
				host = ""
			}
		}
	}
	if host == "" {
		return ""
	}
	scheme := "http"
	if n.cfg.Admin.TLS.On() {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String()
}
