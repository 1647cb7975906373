// Package certs makes the certificates of a measurement with TLS: an authority, a server's, and one
// for each client. Keys are ECDSA P-256.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Files are PEM files.
type Files struct {
	CA, CAKey   string // the authority of both sides
	Server, Key string // a server on 127.0.0.1
}

// life is how long certificates are good.
const life = 24 * time.Hour

// Write makes an authority and a server's certificate, and writes their files to dir.
func Write(dir string) (Files, error) {
	f := Files{
		CA: filepath.Join(dir, "ca.pem"), CAKey: filepath.Join(dir, "ca-key.pem"),
		Server: filepath.Join(dir, "server.pem"), Key: filepath.Join(dir, "server-key.pem"),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return f, fmt.Errorf("certificates: %w", err)
	}
	template := certificate("xdsbench")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return f, fmt.Errorf("certificates: %w", err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		return f, fmt.Errorf("certificates: %w", err)
	}
	authority := &Authority{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: ca}}
	server := certificate("server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	pair, err := authority.issue(server)
	return f, errors.Join(err, write(f.CA, f.CAKey, &authority.of), write(f.Server, f.Key, &pair))
}

func write(cert, key string, pair *tls.Certificate) error {
	pkcs8, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
}

// ServerConfig is for a server that requires clients' certificates; nil without files.
func (f *Files) ServerConfig() (*tls.Config, error) {
	if f.CA == "" {
		return nil, nil
	}
	own, err := tls.LoadX509KeyPair(f.Server, f.Key)
	if err != nil {
		return nil, fmt.Errorf("certificate of the server: %w", err)
	}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool(),
	}
	if !cfg.ClientCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("authority: %s holds no certificate in PEM form", f.CA)
	}
	return cfg, nil
}

// Authority issues certificates.
type Authority struct{ of tls.Certificate }

// Load reads the authority's files.
func Load(cert, key string) (*Authority, error) {
	of, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return &Authority{of}, nil
}

// Client makes a client's certificate, with a SPIFFE id.
func (a *Authority) Client(number int) (tls.Certificate, error) {
	c := certificate(fmt.Sprintf("client-%d", number))
	c.URIs = []*url.URL{{Scheme: "spiffe", Host: "xdsbench.test", Path: "/ns/default/sa/" + c.Subject.CommonName}}
	return a.issue(c)
}

func (a *Authority) issue(template *x509.Certificate) (pair tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, fmt.Errorf("certificates: %w", err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.of.Leaf, key.Public(), a.of.PrivateKey)
	if err != nil {
		return pair, fmt.Errorf("certificates: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func certificate(name string) *x509.Certificate {
	serial := make([]byte, 8)
	_, _ = rand.Read(serial) // it never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(append([]byte{1}, serial...)),
		Subject:      pkix.Name{CommonName: name, Organization: []string{"xdsbench"}},
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(life),
	}
}
