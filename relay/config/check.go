package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// checkUnused finds settings without effect. A configuration that is made in code may
// have them.
func (d *decoder) checkUnused(cfg *Config) {
	if cfg.Tier.Peer.Address != "" && !cfg.Tier.On() {
		d.wrong("tier.peer.address", "is set, but without tier.redis.url and tier.nodes this node is in no tier and opens no peer port; "+
			"expected tier.redis.url (or --redis) or tier.nodes")
	}
	if l := cfg.LastKnownGood; l.Directory != "" && l.Store != StoreDirectory {
		d.wrong("last_known_good.directory", "is set, but last_known_good.store is %s, so the directory is unused; expected last_known_good.store: directory", l.Store)
	}
}

// checkFiles checks the files that fields refer to. A starting node skips this: a
// certificate may be renewed, and a directory mounted, while it runs.
func (d *decoder) checkFiles(cfg *Config) {
	for i, l := range cfg.AllListeners() {
		d.checkValid(cfg.ListenerPath(i)+".tls", l.TLS.Certificates)
	}
	d.checkValid("rest.tls", cfg.REST.TLS.Certificates)
	d.checkValid("admin.tls", cfg.Admin.TLS.Certificates)
	for i, o := range cfg.AllUpstreams() {
		d.checkValid(cfg.UpstreamPath(i)+".tls", o.TLS.Certificates)
	}
	d.checkValid("tier.redis.tls", cfg.Tier.Redis.TLS.Certificates)
	d.checkValid("tier.peer.tls", cfg.Tier.Peer.TLS.Certificates)
	if cfg.LastKnownGood.Store == StoreDirectory && cfg.LastKnownGood.Directory != "" {
		d.checkWritable("last_known_good.directory", cfg.LastKnownGood.Directory)
	}
}

// checkValid requires that the certificates of a section are valid now. Missing files
// are a problem already.
func (d *decoder) checkValid(path string, c Certificates) {
	now := time.Now()
	if c.CertFile != "" && c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil && !isPathError(err) {
			d.wrong(path+".cert_file", "%s and %s: %v; expected a certificate in PEM form and its private key", c.CertFile, c.KeyFile, err)
		}
		for _, der := range pair.Certificate {
			cert, err := x509.ParseCertificate(der)
			if err != nil {
				d.wrong(path+".cert_file", "%s: %v; expected certificates in PEM form", c.CertFile, err)
				continue
			}
			if why := invalidAt(cert, now); why != "" {
				d.wrong(path+".cert_file", "%s: the certificate of %q %s; expected a certificate that is valid now", c.CertFile, shorten(cert.Subject.String()), why)
			}
		}
	}
	if c.CAFile == "" {
		return
	}
	content, err := os.ReadFile(c.CAFile)
	if err != nil {
		return // see readable
	}
	// Expired authorities may stay in a file while others replace them.
	why := "has no certificate in PEM form"
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue
		}
		if why = invalidAt(cert, now); why == "" {
			return
		}
		why = "has no authority that is valid now: that of " + shorten(cert.Subject.String()) + " " + why
	}
	d.wrong(path+".ca_file", "%s %s; expected at least one authority that is valid now", c.CAFile, why)
}

func isPathError(err error) bool {
	var wrong *fs.PathError
	return errors.As(err, &wrong)
}

// invalidAt returns why a certificate is not valid at a time; "" if it is.
func invalidAt(c *x509.Certificate, now time.Time) string {
	switch {
	case now.After(c.NotAfter):
		return "expired at " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(c.NotBefore):
		return "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// checkWritable requires that a directory can be read and written, or created if it does
// not exist. Permissions alone do not show that: a file system may be read-only.
func (d *decoder) checkWritable(path, name string) {
	const expected = "; expected a directory that this process can read and write"
	at := filepath.Clean(name)
	info, err := os.Stat(at)
	for ; errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at); info, err = os.Stat(at) {
		at = filepath.Dir(at)
	}
	switch {
	case err != nil:
		d.wrong(path, "%v"+expected, err)
		return
	case !info.IsDir():
		d.wrong(path, "%s is a file"+expected, at)
		return
	}
	if _, err := os.ReadDir(at); err != nil {
		d.wrong(path, "%v"+expected, err)
		return
	}
	f, err := os.CreateTemp(at, ".xdsrelay-check-*")
	if err != nil {
		d.wrong(path, "%v"+expected, err)
		return
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
}
