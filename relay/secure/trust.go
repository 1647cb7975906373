package secure

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
)

// trust is whose certificates are taken. It is not changed once made.
type trust struct {
	// spiffe says that there may be bundles: SPIFFE ids are then theirs alone, also
	// where none is left.
	spiffe  bool
	domains *x509bundle.Set
	roots   *x509.CertPool // of CAFile; nil without one
	ids     []idPattern
}

// pool is all authorities there are, for what the library verifies and tells clients.
func (t *trust) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	if t.roots != nil {
		pool = t.roots.Clone()
	}
	for _, b := range t.domains.Bundles() {
		for _, a := range b.X509Authorities() {
			pool.AddCert(a)
		}
	}
	return pool
}

// verify holds that a certificate, which others lead to an authority, is taken at a
// time and for a use. Where there are bundles, only that of its trust domain counts
// for a SPIFFE id: the authorities of CAFile and of other domains could claim any.
func (t *trust) verify(certs []*x509.Certificate, use x509.ExtKeyUsage, now time.Time) error {
	switch {
	case len(certs) == 0:
		return errors.New("no certificate was shown")
	case t.spiffe && claimsID(certs[0]):
		if _, _, err := x509svid.Verify(certs, t.domains, x509svid.WithTime(now)); err != nil {
			return err
		}
	case t.spiffe && t.roots == nil:
		return errors.New("the certificate has no SPIFFE id, and there are bundles of trust domains alone")
	default:
		between := x509.NewCertPool()
		for _, c := range certs[1:] {
			between.AddCert(c)
		}
		_, err := certs[0].Verify(x509.VerifyOptions{Roots: t.roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
		if err != nil {
			return err
		}
	}
	return t.takes(certs[0])
}

// takes reports whether a certificate that was verified has one of the expected ids.
func (t *trust) takes(cert *x509.Certificate) error {
	if len(t.ids) == 0 {
		return nil
	}
	id, err := x509svid.IDFromCert(cert)
	if err != nil {
		return fmt.Errorf("the certificate has no SPIFFE id: %w", err)
	}
	if !slices.ContainsFunc(t.ids, func(p idPattern) bool { return p.matches(id) }) {
		return fmt.Errorf("the certificate is of %s, which is none of the ids that are expected", id)
	}
	return nil
}

// claimsID tells whether a certificate says that it has a SPIFFE id, in whatever form.
func claimsID(c *x509.Certificate) bool {
	return slices.ContainsFunc(c.URIs, func(u *url.URL) bool { return strings.EqualFold(u.Scheme, "spiffe") })
}

// equal tells whether both take the same certificates.
func (t *trust) equal(o *trust) bool {
	if (t.roots == nil) != (o.roots == nil) || t.roots != nil && !t.roots.Equal(o.roots) || t.domains.Len() != o.domains.Len() {
		return false
	}
	for _, b := range t.domains.Bundles() {
		if other, ok := o.domains.Get(b.TrustDomain()); !ok || !b.Equal(other) {
			return false
		}
	}
	return true
}

// authorities reads certificates, all of which have to be good.
func authorities(content []byte) (*x509.CertPool, error) {
	pool, n := x509.NewCertPool(), 0
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, errors.New("no certificate in it, expected at least one in PEM form")
	}
	return pool, nil
}
