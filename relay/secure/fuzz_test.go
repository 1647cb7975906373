package secure

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"xdsrelay/relay/xdstest"
)

// FuzzToken: of a file only such tokens are taken as can be told from a guess and
// sent in a header, the files' own lines alone match, and errors say nothing of them.
func FuzzToken(f *testing.F) {
	f.Add([]byte("first-0123456789\nsecond-0123456789\r\n\n"), "first-0123456789")
	f.Add([]byte("secret 0123456789"), "secret 0123456789")
	f.Add([]byte("secret-ä-0123456789\x00\n\xff"), "")
	f.Add([]byte(" \t\n"), "\n")
	f.Fuzz(func(t *testing.T, content []byte, given string) {
		tokens, err := tokensIn(content)
		if err != nil {
			const canary = "CANARY7"
			if _, err := tokensIn(append(slices.Clone(content), "\n"+canary+"\n"...)); err == nil || strings.Contains(err.Error(), canary) {
				t.Fatalf("a bad file with a line more: %v", err)
			}
			return
		}
		if len(tokens) == 0 {
			t.Fatal("no token, and no error")
		}
		for _, token := range tokens {
			if len(token) < minToken || !bytes.Contains(content, []byte(token)) || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
				t.Fatalf("%q became the token %q", content, token)
			}
		}
		token := &Token{&Watched[[]string]{value: tokens, stamps: []os.FileInfo{}, settled: true}}
		if got := token.Current(); got != tokens[0] {
			t.Errorf("shows %q, expected the first of %q", got, tokens)
		}
		for _, text := range append(tokens, given, given+tokens[0], strings.TrimSpace(given)) {
			if token.Matches(text) != slices.Contains(tokens, text) {
				t.Errorf("%q is taken for one of %q, or is not and should be", text, tokens)
			}
		}
	})
}

// FuzzAuthorities: whatever stands in a file of authorities is refused, or there is
// at least one in it.
func FuzzAuthorities(f *testing.F) {
	a := xdstest.NewAuthority(f, "a")
	one := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Certificate().Raw})
	_, key := a.Issue("a.test")
	f.Add(one)
	f.Add(slices.Concat(key, one, []byte("text between"), one))
	f.Add(key)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		pool, err := authorities(content)
		if (err == nil) != (pool != nil) {
			t.Fatalf("%v with the error %v", pool, err)
		}
		if err == nil && pool.Equal(x509.NewCertPool()) {
			t.Fatal("nobody is trusted, and no error says so")
		}
	})
}

// FuzzBundle: whatever stands in the file of a trust domain is refused, or speaks for
// that domain alone, and says the same when it is written and read again.
func FuzzBundle(f *testing.F) {
	domain := spiffeid.RequireTrustDomainFromString("one.test")
	other := spiffeid.RequireTrustDomainFromString("two.test")
	full := spiffebundle.New(domain)
	for _, name := range []string{"a", "b"} {
		full.AddX509Authority(xdstest.NewAuthority(f, name).Certificate())
	}
	full.SetSequenceNumber(7)
	text, err := full.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, text := range []string{
		`{"keys": []}`, `{}`, `null`, `{"keys": null}`, `{"keys": [{"use": "x509-svid", "kty": "EC", "x5c": []}]}`,
		`{"keys": [{"use": "jwt-svid", "kty": "EC", "kid": ""}]}`, `{"spiffe_refresh_hint": -1, "keys": [{}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := bundleIn(domain, content)
		if err != nil {
			return
		}
		if b.TrustDomain() != domain {
			t.Fatalf("a bundle of %s", b.TrustDomain())
		}
		set := x509bundle.NewSet(b)
		if _, ok := set.Get(other); ok {
			t.Fatal("it speaks for another domain")
		}
		took := &trust{spiffe: true, domains: set}
		if !took.equal(took) {
			t.Error("it is not the same as itself")
		}
		took.pool()
		for _, a := range b.X509Authorities() {
			if a == nil || len(a.Raw) == 0 {
				t.Fatal("an authority that is no certificate")
			}
		}
		if b.Empty() {
			return // which the library writes in a form that it does not read
		}
		again, err := spiffebundle.FromX509Authorities(domain, b.X509Authorities()).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := bundleIn(domain, again); err != nil || !same.Equal(b) {
			t.Errorf("read again it is another one: %v", err)
		}
	})
}

// FuzzVerify: of the certificates that a client may show, only those are taken that
// its trust domain has issued, for one id of this domain.
func FuzzVerify(f *testing.F) {
	one, two := xdstest.NewAuthority(f, "one"), xdstest.NewAuthority(f, "two")
	domain := spiffeid.RequireTrustDomainFromString("one.test")
	took := &trust{
		spiffe:  true,
		domains: x509bundle.NewSet(x509bundle.FromX509Authorities(domain, []*x509.Certificate{one.Certificate()})),
		roots:   x509.NewCertPool(),
	}
	took.roots.AddCert(two.Certificate())
	for _, names := range [][]string{{"spiffe://one.test/a"}, {"spiffe://two.test/a"}, {"spiffe://one.test/a", "urn:b"}, {"a.test"}, {"SPIFFE://one.test/a"}} {
		for _, by := range []*xdstest.Authority{one, two} {
			cert, _ := by.Issue(names...)
			block, _ := pem.Decode(cert)
			f.Add(block.Bytes)
			f.Add(slices.Concat(block.Bytes, by.Certificate().Raw))
		}
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, der []byte) {
		certs, err := x509.ParseCertificates(der)
		if err != nil || took.verify(certs, x509.ExtKeyUsageClientAuth, now) != nil {
			return
		}
		by := two
		if claimsID(certs[0]) {
			by = one
			if id := certs[0].URIs[0].String(); len(certs[0].URIs) != 1 || !strings.HasPrefix(id, "spiffe://one.test/") {
				t.Errorf("taken with the ids %v", certs[0].URIs)
			}
		}
		// Intermediate authorities cannot be made without a key, so it is the leaf's issuer.
		if err := certs[0].CheckSignatureFrom(by.Certificate()); err != nil && !certs[0].Equal(by.Certificate()) {
			t.Errorf("taken without the signature of its authority: %v", err)
		}
	})
}
