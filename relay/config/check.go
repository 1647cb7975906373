package config

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// checkUnused finds sections that are filled in and have no effect. A configuration that
// is made in code may have them.
func (d *decoder) checkUnused(cfg *Config) {
	if cfg.Tier.Peer.Address != "" && !cfg.Tier.On() {
		d.wrong("tier.peer.address", "is set, but without tier.redis.url and tier.members this node is in no tier and has no peer port: "+
			"expected tier.redis.url (or --redis) or tier.members with it")
	}
	if l := cfg.LastGood; l.Directory != "" && l.Store != StoreDirectory {
		d.wrong("last_good.directory", "is set, but last_good.store is %s, so nothing is kept there: expected last_good.store: directory", l.Store)
	}
}

// checkFiles looks at the files that fields refer to. A node that starts does without: a
// certificate may be renewed, and a directory mounted, while it runs.
func (d *decoder) checkFiles(cfg *Config) {
	d.checkValid("listen.tls", cfg.Listen.TLS.Certificates)
	for i, l := range cfg.Listeners {
		d.checkValid(fmt.Sprintf("listeners[%d].tls", i), l.TLS.Certificates)
	}
	d.checkValid("rest.tls", cfg.REST.TLS.Certificates)
	d.checkValid("admin.tls", cfg.Admin.TLS.Certificates)
	d.checkValid("origin.tls", cfg.Origin.TLS.Certificates)
	for i, o := range cfg.Origins {
		d.checkValid(fmt.Sprintf("origins[%d].tls", i), o.TLS.Certificates)
	}
	d.checkValid("tier.redis.tls", cfg.Tier.Redis.TLS.Certificates)
	d.checkValid("tier.peer.tls", cfg.Tier.Peer.TLS.Certificates)
	if cfg.LastGood.Store == StoreDirectory && cfg.LastGood.Directory != "" {
		d.checkWritable("last_good.directory", cfg.LastGood.Directory)
	}
}

// checkValid holds that the certificates of a section are valid now. Files that are
// missing are a problem already.
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
				d.wrong(path+".cert_file", "%s: the certificate of %q %s; expected one that is valid now", c.CertFile, shorten(cert.Subject.String()), why)
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
	why := "holds no certificate in PEM form"
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if block.Type != "CERTIFICATE" || err != nil {
			continue
		}
		if why = invalidAt(cert, now); why == "" {
			return
		}
		why = "holds no authority that is valid now: that of " + shorten(cert.Subject.String()) + " " + why
	}
	d.wrong(path+".ca_file", "%s %s; expected at least one authority that is valid now", c.CAFile, why)
}

func isPathError(err error) bool {
	var wrong *fs.PathError
	return errors.As(err, &wrong)
}

// invalidAt says why a certificate is not valid at a time; "" if it is.
func invalidAt(c *x509.Certificate, now time.Time) string {
	switch {
	case now.After(c.NotAfter):
		return "expired at " + c.NotAfter.UTC().Format(time.RFC3339)
	case now.Before(c.NotBefore):
		return "is not valid before " + c.NotBefore.UTC().Format(time.RFC3339)
	}
	return ""
}

// checkWritable holds that a directory can be read and written, or made where it does not
// exist yet. Permissions alone do not say so: a file system may be read-only.
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
