package config

import (
	"slices"
	"strings"
)

// checkListeners checks the ports for clients.
func (d *decoder) checkListeners(cfg *Config) {
	d.checkOneForm("listener", len(cfg.Listeners) > 0)
	if len(cfg.Listeners) == 0 {
		d.checkListener("listener", "listener.allow_plaintext: true (or XDSRELAY_LISTENER_ALLOW_PLAINTEXT=true, or --plaintext)", cfg.Listener)
		return
	}
	names := map[string]string{}
	for i, l := range cfg.Listeners {
		path := cfg.ListenerPath(i)
		if l.Name == RESTName {
			d.wrong(path+".name", "is %q, the name of the section rest; choose another name", l.Name)
		} else {
			d.checkName(path+".name", "listener", l.Name, names)
		}
		d.checkListener(path, path+".allow_plaintext: true", l.Listener)
	}
}

// checkListener checks one of them; plaintext is the setting that allows plaintext.
func (d *decoder) checkListener(path, plaintext string, l Listener) {
	d.checkServerTLS(path+".tls", l.TLS)
	if strings.HasPrefix(l.Address, "unix:") {
		d.checkSocket(path+".address", SocketPath(l.Address))
		return
	}
	if host, ok := d.hostPort(path+".address", l.Address, 0); ok {
		d.checkPlaintext(path, "xDS", plaintext, host, l.AllowPlaintext, l.TLS)
	}
}

// checkSocket checks the path of a Unix socket.
func (d *decoder) checkSocket(path, socket string) {
	switch {
	case socket == "", strings.HasPrefix(socket, "@"):
		d.wrong(path, "got %q, expected the path of a socket after unix:", shorten("unix:"+socket))
	case len(socket) > maxSocketPath:
		d.wrong(path, "has a path of %d bytes, expected at most %d, the limit of systems for sockets", len(socket), maxSocketPath)
	}
}

// maxSocketPath is the smallest limit of any system, without the terminating byte.
const maxSocketPath = 103

// checkPlaintext requires TLS for a port that other machines can reach, unless the user
// allows plaintext.
func (d *decoder) checkPlaintext(path, what, plaintext, host string, allowed bool, t ServerTLS) {
	switch {
	case t.On() && allowed:
		d.wrong(path+".allow_plaintext", "is true, but the port has a certificate (%s.tls); use only one of the two", path)
	case !t.On() && !allowed && !isLoopback(host):
		d.wrong(path+".address", "%s is not a loopback address, and the %s port has no TLS; every process that reaches it can read the configuration of every client. "+
			"Set %s.tls (cert_file, key_file, ca_file), or %s if the network is trusted, or use 127.0.0.1", quoteHost(host), what, path, plaintext)
	}
}

// checkPorts requires a different address for each port.
func (d *decoder) checkPorts(cfg *Config) {
	type port struct{ field, address string }
	var ports []port
	for i, l := range cfg.AllListeners() {
		ports = append(ports, port{cfg.ListenerPath(i) + ".address", l.Address})
	}
	ports = append(ports, port{"rest.address", cfg.REST.Address}, port{"tier.peer.address", cfg.Tier.Peer.Address}, port{"admin.address", cfg.Admin.Address},
		port{"metrics.address", cfg.Metrics.Address})
	first := make(map[string]string)
	for _, p := range ports {
		switch {
		case p.address == "" || strings.HasSuffix(p.address, ":0"):
		case first[p.address] != "":
			d.wrong(p.field, "is the same as %s, expected a different port", first[p.address])
		default:
			first[p.address] = p.field
		}
	}
}

// checkOneForm requires that a list and its shorthand, the section, are not both used. A
// configuration that is made in code uses the list where there is one.
func (d *decoder) checkOneForm(section string, list bool) {
	if !list {
		return
	}
	var used []string
	for path := range d.places {
		if path != section && within(path, section) {
			used = append(used, path)
		}
	}
	if len(used) == 0 {
		return
	}
	slices.Sort(used)
	where := d.where(used[0])
	if at := d.at(section); at.Line > 0 {
		where = d.where(section)
	}
	d.wrong(section+"s", "is set, and %s is set as well (%s); use only one of the two", section, where)
}
