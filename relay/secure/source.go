package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"

	"xdsrelay/relay/events"
)

// inFiles is what the files of a configuration hold.
type inFiles struct {
	certs   []tls.Certificate // one or none
	roots   *x509.CertPool    // nil without a CAFile
	domains []*x509bundle.Bundle
}

// watchFiles reads the files that c names.
func watchFiles(c *Config, log *slog.Logger) (*Watched[*inFiles], error) {
	var paths []string
	at := func(path string) int { // of its content; -1 for none
		if path == "" {
			return -1
		}
		paths = append(paths, path)
		return len(paths) - 1
	}
	cert, key, ca := at(c.CertFile), at(c.KeyFile), at(c.CAFile)
	names := slices.Sorted(maps.Keys(c.Bundles))
	bundles := make([]int, len(names))
	domains := make([]spiffeid.TrustDomain, len(names))
	for i, name := range names {
		var err error
		if domains[i], err = spiffeid.TrustDomainFromString(name); err != nil {
			return nil, fmt.Errorf("trust domain %q: %w", name, err)
		}
		bundles[i] = at(c.Bundles[name])
	}
	return Watch(paths, log, func(contents [][]byte) (*inFiles, error) {
		f := &inFiles{}
		if cert >= 0 {
			pair, err := tls.X509KeyPair(contents[cert], contents[key])
			if err != nil {
				return nil, fmt.Errorf("certificate %s with key %s: %w", c.CertFile, c.KeyFile, err)
			}
			f.certs = []tls.Certificate{pair}
		}
		if ca >= 0 {
			var err error
			if f.roots, err = authorities(contents[ca]); err != nil {
				return nil, fmt.Errorf("authorities %s: %w", c.CAFile, err)
			}
		}
		for i, domain := range domains {
			b, err := bundleIn(domain, contents[bundles[i]])
			if err != nil {
				return nil, fmt.Errorf("bundle %s of trust domain %s: %w", paths[bundles[i]], domain.Name(), err)
			}
			f.domains = append(f.domains, b)
		}
		return f, nil
	})
}

// bundleIn reads the authorities of a trust domain that certificates are issued by.
func bundleIn(domain spiffeid.TrustDomain, content []byte) (*x509bundle.Bundle, error) {
	b, err := spiffebundle.Parse(domain, content)
	if err != nil {
		return nil, err
	}
	for i, a := range b.X509Authorities() {
		if a.PublicKey == nil { // nothing could ever be verified by it
			return nil, fmt.Errorf("the certificate of key %d of the bundle of %s has a public key of an unknown kind; expected RSA, ECDSA or Ed25519", i+1, domain)
		}
	}
	return b.X509Bundle(), nil
}

// material is what there is for one handshake. It is not changed once made.
type material struct {
	certs      []tls.Certificate // one or none
	trust      *trust
	pool       *x509.CertPool // of the trust; what a server takes
	generation uint64         // grows whenever other certificates are taken
}

// source gives what there is now. All methods are safe for concurrent use.
type source struct {
	// Fixed after construction.
	files    *Watched[*inFiles]
	workload *Workload // nil for none
	ids      []idPattern
	spiffe   bool // there may be bundles
	log      *slog.Logger
	from     string // where the certificate is from

	mu sync.Mutex
	// Guarded by mu.
	last   *material
	file   *inFiles                 // that last was made of
	served *workloadapi.X509Context // that last was made of
}

// get looks at the files.
func (s *source) get() *material {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Looking under the lock keeps a slow caller from going back to what another has replaced.
	file, served := s.files.Get(), s.workload.current()
	if s.last != nil && s.file == file && s.served == served {
		return s.last
	}
	m := &material{certs: file.certs}
	domains := x509bundle.NewSet()
	if served != nil {
		domains = x509bundle.NewSet(served.Bundles.Bundles()...)
		if len(m.certs) == 0 {
			m.certs = []tls.Certificate{certificateOf(served.DefaultSVID())}
		}
	}
	for _, b := range file.domains { // a file is the operator's own word
		domains.Add(b)
	}
	m.trust = &trust{s.spiffe, domains, file.roots, s.ids}
	m.pool = m.trust.pool()
	if s.last != nil {
		m.generation = s.last.generation
		if !m.trust.equal(s.last.trust) {
			m.generation++
		}
	}
	s.report(s.last, m)
	s.last, s.file, s.served = m, file, served
	return m
}

// report logs a certificate and authorities that are loaded, or loaded again and others
// than before; last is nil at first. Never the key.
func (s *source) report(last, now *material) {
	var before []byte
	message, event := "certificate loaded", slog.Attr{}
	if last != nil {
		message, event = "certificate reloaded", slog.Any(events.Key, events.CertificateReloaded)
		if len(last.certs) > 0 {
			before = last.certs[0].Certificate[0]
		}
	}
	if len(now.certs) > 0 && !bytes.Equal(before, now.certs[0].Certificate[0]) {
		if leaf := now.certs[0].Leaf; leaf != nil {
			s.log.LogAttrs(context.Background(), slog.LevelInfo, message, //nolint:sloglint // one of the two constants above
				slog.String("from", s.from), slog.String("subject", leaf.Subject.String()),
				slog.Any("names", namesOf(leaf)), slog.Time("not_after", leaf.NotAfter), event)
		}
	}
	if last != nil && !now.trust.equal(last.trust) {
		s.log.Info("trusted authorities reloaded", events.Key, events.TrustReloaded, "from", s.from)
	}
}

// namesOf are the subject alternative names of a certificate.
func namesOf(c *x509.Certificate) (names []string) {
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	names = append(names, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
