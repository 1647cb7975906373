package config

import (
	"strconv"
	"strings"
)

// checkListeners checks where clients connect.
func (d *decoder) checkListeners(cfg *Config) {
	d.checkListener("listen", "listen.plaintext: true (or XDSRELAY_LISTEN_PLAINTEXT=true, or --plaintext)", cfg.Listen.Listener)
	names := map[string]string{}
	for i, l := range cfg.Listeners {
		path := "listeners[" + strconv.Itoa(i) + "]"
		switch l.Name {
		case DefaultName:
			d.wrong(path+".name", "is %q, which is the name of the section listen", l.Name)
		case RESTName:
			d.wrong(path+".name", "is %q, which is the name of the section rest", l.Name)
		default:
			d.checkName(path+".name", "listener", l.Name, names)
		}
		d.checkListener(path, path+".plaintext: true", l.Listener)
	}
}

// checkListener checks one of them; plaintext is how to say that its traffic may be
// seen.
func (d *decoder) checkListener(path, plaintext string, l Listener) {
	d.checkServerTLS(path+".tls", l.TLS)
	if strings.HasPrefix(l.Address, "unix:") {
		d.checkSocket(path+".address", SocketPath(l.Address))
		return
	}
	if host, ok := d.hostPort(path+".address", l.Address, 0); ok {
		d.checkPlaintext(path, "xDS", plaintext, host, l.Plaintext, l.TLS)
	}
}

// checkSocket checks the path of a Unix socket.
func (d *decoder) checkSocket(path, socket string) {
	switch {
	case socket == "", strings.HasPrefix(socket, "@"):
		d.wrong(path, "got %q, expected the path of a socket after unix:", shorten("unix:"+socket))
	case len(socket) > maxSocketPath:
		d.wrong(path, "has a path of %d bytes, expected at most %d, which is what systems take for a socket", len(socket), maxSocketPath)
	}
}

// maxSocketPath is the least that any system takes, without the byte that ends it.
const maxSocketPath = 103

// checkPlaintext holds that a port that others than this machine can reach has TLS, or
// that the user has said that it needs none.
func (d *decoder) checkPlaintext(path, what, plaintext, host string, allowed bool, t ServerTLS) {
	switch {
	case t.On() && allowed:
		d.wrong(path+".plaintext", "is true, but the port has a certificate (%s.tls): expected one of the two", path)
	case !t.On() && !allowed && !isLoopback(host):
		d.wrong(path+".address", "%s is not a loopback address, and the %s port has no TLS: whoever reaches it can read every client's configuration. "+
			"Set %s.tls (cert_file, key_file, ca_file), or %s if the network may see it, or listen on 127.0.0.1", quoteHost(host), what, path, plaintext)
	}
}

// checkPorts holds that each port has an address of its own.
func (d *decoder) checkPorts(cfg *Config) {
	type port struct{ field, address string }
	ports := []port{{"listen.address", cfg.Listen.Address}}
	for i, l := range cfg.Listeners {
		ports = append(ports, port{"listeners[" + strconv.Itoa(i) + "].address", l.Address})
	}
	ports = append(ports, port{"rest.address", cfg.REST.Address}, port{"tier.peer.address", cfg.Tier.Peer.Address}, port{"admin.address", cfg.Admin.Address},
		port{"metrics.address", cfg.Metrics.Address})
	first := make(map[string]string)
	for _, p := range ports {
		switch {
		case p.address == "" || strings.HasSuffix(p.address, ":0"):
		case first[p.address] != "":
			d.wrong(p.field, "is the same as %s, expected another port", first[p.address])
		default:
			first[p.address] = p.field
		}
	}
}
