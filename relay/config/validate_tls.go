package config

import (
	"maps"
	"slices"
	"strconv"

	"xdsrelay/relay/secure"
)

// checkCertificates holds that the files of a section are there and belong together.
func (d *decoder) checkCertificates(path string, c Certificates) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		d.wrong(path+".cert_file", "a certificate and its key belong together: expected cert_file and key_file, or neither")
	}
	d.readable(path+".cert_file", c.CertFile)
	d.readable(path+".key_file", c.KeyFile)
	d.readable(path+".ca_file", c.CAFile)
	for _, domain := range slices.Sorted(maps.Keys(c.SPIFFEBundles)) {
		at := path + ".spiffe_bundles." + domain
		if err := secure.CheckDomain(domain); err != nil {
			d.wrong(at, "%v", err)
		}
		if c.SPIFFEBundles[domain] == "" {
			d.wrong(at, "is empty, expected a file")
		}
		d.readable(at, c.SPIFFEBundles[domain])
	}
	if c.WorkloadAPI != "" {
		if err := secure.CheckWorkload(c.WorkloadAPI); err != nil {
			d.wrong(path+".workload_api", "got %q: %v; expected an address like unix:///run/spire/agent.sock", shorten(c.WorkloadAPI), err)
		}
	}
}

// checkTLS checks how a server is dialled.
func (d *decoder) checkTLS(path string, t TLS) {
	d.checkCertificates(path, t.Certificates)
	for i, id := range t.PeerIDs {
		at := path + ".peer_ids[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path+".peer_ids")
		if err := secure.CheckID(id); err != nil {
			d.wrong(at, "%v; expected one like spiffe://example.org/control-plane, or spiffe://example.org/* for all of a trust domain", err)
		}
	}
	switch {
	case len(t.PeerIDs) > 0 && t.ServerName != "":
		d.wrong(path+".peer_ids", "there is a server_name too: expected one of them to say who the other side is")
	case len(t.PeerIDs) == 0 && t.spiffe() && t.CAFile == "":
		d.wrong(path+".peer_ids", "is empty, and all workloads of a trust domain have certificates of its authorities: "+
			"expected the SPIFFE ids that the other side may have, like spiffe://example.org/control-plane, or spiffe://example.org/* for any")
	}
}

// checkServerTLS checks how clients are let in.
func (d *decoder) checkServerTLS(path string, t ServerTLS) {
	d.checkCertificates(path, t.Certificates)
	switch {
	case !t.On() && (t.trusts() || t.ClientAuth != ClientAuthAuto):
		d.wrong(path+".cert_file", "is empty, but the rest of %s says who is let in: expected a certificate for this port, with its key_file, or a workload_api", path)
	case t.On() && !t.trusts() && (t.ClientAuth == ClientAuthRequire || t.ClientAuth == ClientAuthOptional):
		d.wrong(path+".ca_file", "is empty, but %s.client_auth is %s: expected the authorities of clients, or spiffe_bundles or a workload_api", path, t.ClientAuth)
	}
}
