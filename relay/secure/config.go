package secure

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Config says what one side of a connection shows of itself, and whom it takes the
// other side to be. Files are in PEM form where nothing else is said.
type Config struct {
	// CertFile is the certificate that is shown, with those between it and the
	// authority, and KeyFile its private key. A client may have neither.
	CertFile, KeyFile string
	// CAFile holds the authorities of the other side. Where there are neither these
	// nor bundles, those of the system stand for a client, and a server asks for no
	// certificate.
	CAFile string
	// Bundles are files with the authorities of SPIFFE trust domains, by domain, in the
	// form of SPIFFE bundles (a JWK set). Where there are any, or a Workload, only they
	// speak for SPIFFE ids, each for those of its domain.
	Bundles map[string]string
	// Workload gives a certificate, where there is no CertFile, and further bundles.
	// Nil for none.
	Workload *Workload
	// ServerName is what a server's certificate has to be for. Empty means the host
	// that is dialled.
	ServerName string
	// PeerIDs are the SPIFFE ids that the other side may have; one that ends with /*
	// means all below it. For a client they take the place of the server's name. Empty
	// means that any will do, which a client with bundles may not say.
	PeerIDs []string
	// MinVersion is the least version of TLS that is spoken. 0 means 1.3.
	MinVersion uint16
	// ClientAuth says whether a server asks for certificates. The default is to
	// require them where there is an authority to verify them with.
	ClientAuth ClientAuth
}

// ClientAuth says what a server wants of the certificates of its clients.
type ClientAuth int

// What a server may want.
const (
	ClientAuthDefault  ClientAuth = iota
	ClientAuthRequired            // every client shows a good one
	ClientAuthOptional            // who shows one shows a good one
	ClientAuthNone                // nobody is asked
)

// spiffe tells whether there may be bundles.
func (c *Config) spiffe() bool { return len(c.Bundles) > 0 || c.Workload != nil }

// source makes the source of what is configured. The files are read.
func (c *Config) source(log *slog.Logger) (*source, error) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, fmt.Errorf("certificate %q and key %q are required together: set both or neither", c.CertFile, c.KeyFile)
	}
	ids := make([]idPattern, len(c.PeerIDs))
	for i, text := range c.PeerIDs {
		var err error
		if ids[i], err = parseID(text); err != nil {
			return nil, err
		}
	}
	files, err := watchFiles(c, log)
	if err != nil {
		return nil, err
	}
	s := &source{files: files, workload: c.Workload, ids: ids, spiffe: c.spiffe(), log: log, from: cmp.Or(c.CertFile, "workload API")}
	s.get() // logs what is loaded
	return s, nil
}

// minVersion is the least version that is spoken.
func (c *Config) minVersion() uint16 {
	if c.MinVersion == 0 {
		return tls.VersionTLS13
	}
	return c.MinVersion
}

// suites are those of TLS 1.2 that HTTP/2 allows (RFC 9113, appendix A) and the
// library thinks well of. Those of TLS 1.3 cannot be chosen.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// idPattern is a SPIFFE id, or all those below one.
type idPattern struct {
	id    spiffeid.ID
	below bool
}

// CheckID tells what is wrong with an entry of [Config.PeerIDs].
func CheckID(text string) error {
	_, err := parseID(text)
	return err
}

// CheckDomain tells what is wrong with the name of a SPIFFE trust domain.
func CheckDomain(name string) error {
	if strings.Contains(name, "/") {
		return errors.New("expected the name of a trust domain alone, like example.org")
	}
	if _, err := spiffeid.TrustDomainFromString(name); err != nil {
		return fmt.Errorf("%w: expected the name of a trust domain, like example.org", err)
	}
	return nil
}

func parseID(text string) (p idPattern, err error) {
	plain, below := strings.CutSuffix(text, "/*")
	p.below = below
	if p.id, err = spiffeid.FromString(plain); err != nil {
		return p, fmt.Errorf("%q is no SPIFFE id: %w", text, err)
	}
	return p, nil
}

func (p idPattern) matches(id spiffeid.ID) bool {
	if !p.below {
		return id == p.id
	}
	return strings.HasPrefix(id.String(), p.id.String()+"/")
}
