package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"xdsrelay/bench/certs"
)

// TLSFiles are files in PEM form that make an encrypted connection.
type TLSFiles struct {
	CA        string // who servers are certified by
	Cert, Key string // the clients' own; both or none
	Name      string // what servers are called; empty means the host of their address
	// CAKey is the key of CA, if each connection is to show a certificate of its own.
	CAKey string
}

// Authority reads what issues a certificate for each connection. It is nil if nothing does.
func (t *TLSFiles) Authority() (*certs.Authority, error) {
	if t.CAKey == "" {
		return nil, nil
	}
	return certs.Load(t.CA, t.CAKey)
}

// secure gives a link its own side of TLS.
func (l *link) secure() error {
	cfg := l.fleet.cfg
	if cfg.TLS == nil || cfg.Authority == nil && !cfg.Tickets {
		l.tls = cfg.TLS
		return nil
	}
	l.tls = cfg.TLS.Clone()
	if cfg.Tickets {
		l.tls.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	if cfg.Authority == nil {
		return nil
	}
	own, err := cfg.Authority.Client(l.number)
	l.tls.Certificates = []tls.Certificate{own}
	return err
}

// Config reads the files. It is nil if there are none.
func (t *TLSFiles) Config() (*tls.Config, error) {
	if *t == (TLSFiles{}) {
		return nil, nil
	}
	if t.CA == "" {
		return nil, errors.New("TLS: there is no certificate authority, by which servers are known")
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("TLS: a certificate needs a key, and a key a certificate")
	}
	pem, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	cfg := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: t.Name, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("TLS: %s holds no certificate in PEM form", t.CA)
	}
	if t.Cert != "" {
		own, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	return cfg, nil
}
