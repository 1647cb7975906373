package fleet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// certify writes a certificate for 127.0.0.1 and its key, and returns the files.
func certify(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// encrypt puts TLS in front of a server and demands certificates of clients.
func encrypt(t *testing.T, to string, cfg *tls.Config) (addr string) {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer in.Close()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				serving.Go(func() {
					defer out.Close()
					_, _ = io.Copy(out, in) // until either has enough
				})
				_, _ = io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

// TestTLS holds that clients speak TLS and show their certificates.
func TestTLS(t *testing.T) {
	spec := content.Spec{Keys: 1, Clusters: 500}
	o := serveOrigin(t, spec)
	cert, key := certify(t)
	files := TLSFiles{CA: cert, Cert: cert, Key: key}
	cfg, err := files.Config()
	if err != nil {
		t.Fatal(err)
	}
	addr := encrypt(t, o.Addr(), &tls.Config{
		Certificates: cfg.Certificates, ClientCAs: cfg.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS13,
	})
	f := newFleet(t, Config{Addrs: []string{addr}, Clients: 20, Content: spec, Delta: true, TLS: cfg})
	connect(t, f)
	c := content.Change{Kind: content.Full}
	made, err := o.Change(c)
	if err != nil {
		t.Fatal(err)
	}
	await(t, f, made.Revision, c)
	well(t, f)

	files.Cert, files.Key = "", ""
	if cfg, err = files.Config(); err != nil {
		t.Fatal(err)
	}
	f = newFleet(t, Config{Addrs: []string{addr}, Clients: 1, TLS: cfg})
	f.start(0)
	xdstest.Eventually(t, "the end of a client without a certificate", func() bool {
		ends := f.Stats().Ends
		return ends["connection"].Count+ends["dial"].Count > 0
	})
}
