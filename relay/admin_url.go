package relay

import (
	"net"
	"net/netip"
	"net/url"
)

// adminURL is where operators reach the admin port from other machines; see [urlOfAdmin].
func (n *Node) adminURL() string {
	scheme := "http"
	if n.cfg.Admin.TLS.On() {
		scheme = "https"
	}
	return urlOfAdmin(scheme, n.AdminAddr(), n.tier.Self().Peer)
}

// urlOfAdmin is the URL of the admin port: at the host that it listens on, or if that is all
// addresses, at the host by which other nodes reach this one. It is empty if only this machine
// reaches the port, unless the other nodes are on it, too.
func urlOfAdmin(scheme, address, peer string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	peerHost, _, _ := net.SplitHostPort(peer) // empty if there is none
	if bound, err := netip.ParseAddr(host); err == nil {
		at, _ := netip.ParseAddr(peerHost)
		switch {
		case bound.IsUnspecified():
			host = peerHost
		case bound.IsLoopback() && peerHost != "localhost" && !at.IsLoopback():
			host = ""
		}
	}
	if host == "" {
		return ""
	}
	return (&url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}).String()
}
