package xdstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates for tests, for both sides of a connection.
type Authority struct {
	tb   TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	// PEM is its own certificate.
	PEM []byte
}

// NewAuthority makes an authority of that name.
func NewAuthority(t TB, name string) *Authority {
	t.Helper()
	a := &Authority{tb: t, key: newKey(t)}
	a.cert = template(t, name)
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatalf("authority: %v", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatalf("authority: %v", err)
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// Certificate is its own.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// Issue makes a certificate for hosts, which are names, addresses or URIs, and its
// key. Its subject is the first.
func (a *Authority) Issue(hosts ...string) (cert, key []byte) {
	a.tb.Helper()
	return a.IssueUntil(time.Now().Add(24*time.Hour), hosts...)
}

// IssueUntil makes a certificate that ends at a time.
func (a *Authority) IssueUntil(end time.Time, hosts ...string) (cert, key []byte) {
	a.tb.Helper()
	c, k := template(a.tb, hosts[0]), newKey(a.tb)
	c.NotAfter = end
	c.KeyUsage = x509.KeyUsageDigitalSignature
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else if u, err := url.Parse(h); err == nil && u.Scheme != "" {
			c.URIs = append(c.URIs, u)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, k.Public(), a.key)
	if err != nil {
		a.tb.Fatalf("certificate: %v", err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.tb.Fatalf("key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// ClientTLS is for a client that takes servers of this authority, and shows a new
// certificate of the authority of for hosts; none if of is nil.
func (a *Authority) ClientTLS(of *Authority, hosts ...string) *tls.Config {
	a.tb.Helper()
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	cfg.RootCAs.AddCert(a.cert)
	if of != nil {
		pair := PairOf(a.tb, hosts, of.Issue)
		// Whatever authorities the server names: the library would rather show nothing.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return cfg
}

// PairOf issues a certificate in the form that TLS wants.
func PairOf(t TB, hosts []string, issue func(hosts ...string) (cert, key []byte)) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(issue(hosts...))
	if err != nil {
		t.Fatalf("certificate: %v", err)
	}
	return pair
}

// WriteFiles issues a certificate and writes it to cert.pem, key.pem and ca.pem in
// a directory, each by renaming it into place.
func (a *Authority) WriteFiles(dir string, hosts ...string) (cert, key, ca string) {
	a.tb.Helper()
	c, k := a.Issue(hosts...)
	cert, key, ca = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for name, content := range map[string][]byte{cert: c, key: k, ca: a.PEM} {
		err := os.WriteFile(name+".new", content, 0o600)
		if err == nil {
			err = os.Rename(name+".new", name)
		}
		if err != nil {
			a.tb.Fatalf("certificates: %v", err)
		}
	}
	return cert, key, ca
}

func newKey(t TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("key: %v", err)
	}
	return key
}

func template(t TB, name string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatalf("serial number: %v", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}
