package relay

import (
	"context"
	"crypto/tls"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/pause"
	"xdsrelay/relay/secure"
)

// certificates makes of a section what [secure] wants. Parts that name the same
// Workload API share a connection to it.
func (n *Node) certificates(c config.Certificates) (secure.Config, error) {
	out := secure.Config{CertFile: c.CertFile, KeyFile: c.KeyFile, CAFile: c.CAFile, Bundles: c.SPIFFEBundles}
	if c.MinVersion == config.TLS12 {
		out.MinVersion = tls.VersionTLS12
	}
	if c.WorkloadAPI == "" {
		return out, nil
	}
	w := n.workloads[c.WorkloadAPI]
	if w == nil {
		var err error
		if w, err = secure.DialWorkload(c.WorkloadAPI, n.part(logs.Security)); err != nil {
			return out, err
		}
		if n.workloads == nil {
			n.workloads = make(map[string]*secure.Workload)
		}
		n.workloads[c.WorkloadAPI] = w
		n.add(part{stop: w.Close})
	}
	out.Workload = w
	return out, nil
}

// secureClient makes the side that dials of a section.
func (n *Node) secureClient(t config.TLS) (*secure.Client, error) {
	cfg, err := n.certificates(t.Certificates)
	if err != nil {
		return nil, err
	}
	cfg.ServerName, cfg.PeerIDs = t.ServerName, t.SPIFFEIDs
	return secure.NewClient(cfg, n.part(logs.Security))
}

// clientAuth is what the modes of the configuration are called elsewhere.
var clientAuth = map[config.ClientAuth]secure.ClientAuth{
	config.ClientAuthAuto:     secure.ClientAuthDefault,
	config.ClientAuthRequire:  secure.ClientAuthRequired,
	config.ClientAuthOptional: secure.ClientAuthOptional,
	config.ClientAuthNone:     secure.ClientAuthNone,
}

// secureServer makes the side that listens of a section; nil where it is empty.
func (n *Node) secureServer(section string, t config.ServerTLS) (*secure.Server, error) {
	if !t.On() {
		return nil, nil
	}
	cfg, err := n.certificates(t.Certificates)
	if err != nil {
		return nil, err
	}
	cfg.ClientAuth = clientAuth[t.ClientAuth]
	s, err := secure.NewServer(cfg, n.part(logs.Security))
	if err != nil {
		return nil, err
	}
	n.servers = append(n.servers, s)
	n.certs.watch(section, s.Validity)
	return s, nil
}

// trustPause is between two looks at whose certificates are taken.
const trustPause = time.Second

// watchTrust has the streams of clients looked at again, until ctx ends, whenever a
// port takes certificates of other authorities than before, and closes the connections
// of other nodes that stand on what is not trusted any more.
//
// It begins with the generation of trust when the ports were made: authorities may change after a
// client has connected and before this runs.
func (n *Node) watchTrust(ctx context.Context) {
	if len(n.servers) == 0 && n.peers == nil {
		return
	}
	last := n.trusted
	for pause.For(ctx, pause.Next(trustPause)) {
		if now := n.trustGeneration(); now != last {
			last = now
			n.log.Info("trusted authorities changed: rechecking connected clients")
			n.fanout.Recheck()
		}
		if n.peers != nil {
			n.peers.endUntrusted(n.part(logs.Security))
		}
	}
}

// trustGeneration costs a look at the times of files.
func (n *Node) trustGeneration() (sum uint64) {
	for _, s := range n.servers {
		sum += s.Generation()
	}
	return sum
}
