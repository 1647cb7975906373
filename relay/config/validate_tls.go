package config

import (
	"maps"
	"slices"
	"strconv"

	"xdsrelay/relay/secure"
)

// checkCertificates requires that the files of a section exist and belong together.
func (d *decoder) checkCertificates(path string, c Certificates) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		d.wrong(path+".cert_file", "requires key_file, and the reverse; set both or neither")
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

// checkTLS checks how the relay connects to a server.
func (d *decoder) checkTLS(path string, t TLS) {
	d.checkCertificates(path, t.Certificates)
	for i, id := range t.SPIFFEIDs {
		at := path + ".spiffe_ids[" + strconv.Itoa(i) + "]"
		d.placeItem(at, path+".spiffe_ids")
		if err := secure.CheckID(id); err != nil {
			d.wrong(at, "%v; expected an id like spiffe://example.org/control-plane, or spiffe://example.org/* for all ids of a trust domain", err)
		}
	}
	switch {
	case len(t.SPIFFEIDs) > 0 && t.ServerName != "":
		d.wrong(path+".spiffe_ids", "is set, and server_name is set as well; use only one of the two to identify the other side")
	case len(t.SPIFFEIDs) == 0 && t.spiffe() && t.CAFile == "":
		d.wrong(path+".spiffe_ids", "is empty, but all workloads of a trust domain have certificates of its authorities; "+
			"expected the SPIFFE ids that the other side may have, like spiffe://example.org/control-plane, or spiffe://example.org/* for any")
	}
}

// checkServerTLS checks how a port authenticates clients.
func (d *decoder) checkServerTLS(path string, t ServerTLS) {
	d.checkCertificates(path, t.Certificates)
	switch {
	case !t.On() && (t.trusts() || t.ClientAuth != ClientAuthAuto):
		d.wrong(path+".cert_file", "is empty, but %s sets how clients are authenticated; expected a certificate for this port, with its key_file, or a workload_api", path)
	case t.On() && !t.trusts() && (t.ClientAuth == ClientAuthRequire || t.ClientAuth == ClientAuthOptional):
		d.wrong(path+".ca_file", "is empty, but %s.client_auth is %s; expected the authorities of clients, spiffe_bundles, or a workload_api", path, t.ClientAuth)
	}
}
