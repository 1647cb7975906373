package aggregation

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
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

// TestIdentity: the best name that was proved, and none where nothing was.
func TestIdentity(t *testing.T) {
	all := Peer{Authenticated: true, SPIFFEID: "spiffe://corp/a", URIs: []string{"urn:a"}, DNSNames: []string{"a.corp"}, CommonName: "a"}
	for _, want := range []string{"spiffe://corp/a", "uri:urn:a", "dns:a.corp", "cn:a", ""} {
		if got := all.Identity(); got != want {
			t.Errorf("%+v is %q, want %q", all, got, want)
		}
		switch {
		case all.SPIFFEID != "":
			all.SPIFFEID = ""
		case all.URIs != nil:
			all.URIs = nil
		case all.DNSNames != nil:
			all.DNSNames = nil
		default:
			all.CommonName = ""
		}
	}
	if got := (&Peer{CommonName: "claimed", Address: "10.0.0.1:1"}).Identity(); got != "" {
		t.Errorf("who proved nothing is %q", got)
	}
}

// TestIdentityOfSeveralNames: certificates are one identity only if they have the same
// names, in any order: one name that two have in common does not do (K6).
func TestIdentityOfSeveralNames(t *testing.T) {
	dns := func(names ...string) string {
		return (&Peer{Authenticated: true, DNSNames: names}).Identity()
	}
	uri := func(uris ...string) string { return (&Peer{Authenticated: true, URIs: uris}).Identity() }
	if got, want := dns("web.corp", "api.corp", "web.corp"), "dns:api.corp,web.corp"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if dns("a", "b") != dns("b", "a") || uri("urn:a", "urn:b") != uri("urn:b", "urn:a") {
		t.Error("the order of the names counts")
	}
	if got, want := dns("a,b", "c%"), "dns:a%2Cb,c%25"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	seen := map[string]bool{}
	for _, id := range []string{dns("a"), dns("a", "b"), dns("b"), dns("a,b"), dns("a%2Cb"), uri("a"), uri("a", "b"), uri("a,b"), uri("spiffe://corp/a", "spiffe://corp/b")} {
		if seen[id] {
			t.Errorf("%q is twice", id)
		}
		seen[id] = true
	}
}

// TestPeerOfConnection: a connection tells by which listener it came, with a
// certificate or without, and whether that is still good.
func TestPeerOfConnection(t *testing.T) {
	info := handshake(t, clientCert(t, "spiffe://corp/ns/web"), tls.RequireAndVerifyClientCert).(credentials.TLSInfo)
	gone := errors.New("gone")
	c := &Connection{Listener: "mesh", TLS: &info, Recheck: func() error { return gone }}
	if got := PeerFrom(c, nil); got.Listener != "mesh" || got.SPIFFEID != "spiffe://corp/ns/web" || !got.Authenticated {
		t.Errorf("%+v", got)
	}
	if err := StillTrusted(c); !errors.Is(err, gone) {
		t.Errorf("rechecked: %v", err)
	}
	plain := &Connection{Listener: "local"}
	if got := PeerFrom(plain, nil); !reflect.DeepEqual(got, Peer{Listener: "local"}) {
		t.Errorf("plaintext: %+v", got)
	}
	for _, auth := range []credentials.AuthInfo{plain, (*Connection)(nil), info, nil} {
		if err := StillTrusted(auth); err != nil {
			t.Errorf("%T: %v", auth, err)
		}
	}
	if got := PeerFrom((*Connection)(nil), nil); !reflect.DeepEqual(got, Peer{}) {
		t.Errorf("nil: %+v", got)
	}
	if plain.AuthType() == c.AuthType() {
		t.Error("plaintext calls itself TLS")
	}
}
