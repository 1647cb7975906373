package aggregation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/url"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
)

// clientCert makes a self-signed client certificate with the given URIs.
func clientCert(t *testing.T, uris ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "web-1"}, DNSNames: []string{"web.corp"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		tmpl.URIs = append(tmpl.URIs, parsed)
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// handshake runs gRPC's own TLS handshake and returns what the server learns.
func handshake(t *testing.T, cert tls.Certificate, auth tls.ClientAuthType) credentials.AuthInfo {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	server := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: auth, ClientCAs: pool})
	client := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ServerName: "web.corp"})
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	done := make(chan error, 1)
	go func() {
		_, _, err := client.ClientHandshake(t.Context(), "web.corp", a)
		done <- err
	}()
	_, info, err := server.ServerHandshake(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return info
}

func TestPeerFrom(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 99}
	cert := clientCert(t, "spiffe://corp/ns/web")
	want := Peer{Authenticated: true, SPIFFEID: "spiffe://corp/ns/web", URIs: []string{"spiffe://corp/ns/web"},
		DNSNames: []string{"web.corp"}, CommonName: "web-1", Address: "10.0.0.1:99"}
	info := handshake(t, cert, tls.RequireAndVerifyClientCert)
	if got := PeerFrom(info, addr); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if tlsInfo, ok := info.(credentials.TLSInfo); !ok || !reflect.DeepEqual(PeerFrom(&tlsInfo, addr), want) {
		t.Error("a pointer to the same gives something else")
	}
	// Shown, yet not verified: the certificate could be anybody's.
	if got := PeerFrom(handshake(t, cert, tls.RequireAnyClientCert), addr); !reflect.DeepEqual(got, Peer{Address: "10.0.0.1:99"}) {
		t.Errorf("unverified: %+v", got)
	}
	if got := PeerFrom(nil, nil); !reflect.DeepEqual(got, Peer{}) {
		t.Errorf("plaintext: %+v", got)
	}
	if got := PeerFrom((*credentials.TLSInfo)(nil), nil); got.Authenticated {
		t.Errorf("nil pointer: %+v", got)
	}
	two := handshake(t, clientCert(t, "spiffe://corp/a", "spiffe://corp/b"), tls.RequireAndVerifyClientCert)
	if got := PeerFrom(two, nil); got.SPIFFEID != "" || len(got.URIs) != 2 || !got.Authenticated {
		t.Errorf("two URIs: %+v", got)
	}
}

func TestSPIFFEForm(t *testing.T) {
	for uri, want := range map[string]bool{
		"spiffe://corp": true, "spiffe://corp/a/b": true, "spiffe://corp.example_1-x/a": true,
		"https://corp/a": false, "spiffe:///a": false, "spiffe://corp/": false, "spiffe://corp//a": false,
		"spiffe://corp/../a": false, "spiffe://corp/a?x": false, "spiffe://corp/a#x": false, "spiffe://u@corp/a": false,
		"spiffe://corp:80/a": false, "spiffe://CORP/a": false, "spiffe://corp/%61%2F": false, "spiffe:corp": false,
	} {
		u, err := url.Parse(uri)
		if err != nil {
			t.Fatal(err)
		}
		if isSPIFFE(u) != want {
			t.Errorf("%s: %v", uri, !want)
		}
	}
}
