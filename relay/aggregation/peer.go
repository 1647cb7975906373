package aggregation

import (
	"crypto/x509"
	"net"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
)

// Peer is what the transport proved about a client: the variable peer of rules.
// Only a certificate whose chain was verified fills the identity fields; for all
// others they are empty, and Authenticated is false.
type Peer struct {
	// Authenticated tells whether a client certificate was verified.
	Authenticated bool `cel:"authenticated" json:"authenticated,omitempty"`
	// SPIFFEID is the certificate's SPIFFE id, empty unless it is a well-formed one
	// and the only URI of the certificate, as the SPIFFE standard wants.
	SPIFFEID string `cel:"spiffe_id" json:"spiffe_id,omitempty"`
	// URIs and DNSNames are the certificate's subject alternative names.
	URIs     []string `cel:"uris" json:"uris,omitempty"`
	DNSNames []string `cel:"dns_names" json:"dns_names,omitempty"`
	// CommonName is the certificate subject's.
	CommonName string `cel:"common_name" json:"common_name,omitempty"`
	// Address is where the connection comes from, as host:port; it is known for
	// plaintext too and proves nothing.
	Address string `cel:"address" json:"address,omitempty"`
	// Listener is the name of the listener that the client came in by, as in the
	// configuration.
	Listener string `cel:"listener" json:"listener,omitempty"`
}

// Identity is what a client's certificate proves: its SPIFFE id, or else all its URIs,
// or else all its DNS names, or else the common name of its subject. All but a SPIFFE id
// begin with their kind, as in dns:api.corp,web.corp, so that no kind passes for another.
// Names are sorted, and all of them count: certificates that have only some names in
// common are different identities. It is empty for a client that has proved nothing.
func (p *Peer) Identity() string {
	switch {
	case !p.Authenticated:
		return ""
	case p.SPIFFEID != "":
		return p.SPIFFEID
	case len(p.URIs) > 0:
		return "uri:" + joined(p.URIs)
	case len(p.DNSNames) > 0:
		return "dns:" + joined(p.DNSNames)
	case p.CommonName != "":
		return "cn:" + p.CommonName
	}
	return ""
}

// joined writes a set of names as one string. It is injective, and leaves a single name
// without "," and "%" unchanged.
func joined(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strings.NewReplacer("%", "%25", ",", "%2C").Replace(name)
	}
	slices.Sort(quoted)
	return strings.Join(slices.Compact(quoted), ",")
}

// PeerFrom reads the peer of a connection, whose AuthInfo is a [*Connection] or that
// of TLS. Both arguments may be nil.
func PeerFrom(auth credentials.AuthInfo, addr net.Addr) Peer {
	var p Peer
	if addr != nil {
		p.Address = addr.String()
	}
	if c, ok := auth.(*Connection); ok && c != nil {
		p.Listener, auth = c.Listener, c.TLS
	}
	cert := verifiedLeaf(auth)
	if cert == nil {
		return p
	}
	p.Authenticated = true
	p.CommonName = cert.Subject.CommonName
	p.DNSNames = append(p.DNSNames, cert.DNSNames...)
	for _, u := range cert.URIs {
		p.URIs = append(p.URIs, u.String())
	}
	if len(cert.URIs) == 1 && isSPIFFE(cert.URIs[0]) {
		p.SPIFFEID = cert.URIs[0].String()
	}
	return p
}

// verifiedLeaf is the peer's certificate, nil unless its chain was verified:
// TLS may be configured to ask for a certificate and not to verify it.
func verifiedLeaf(auth credentials.AuthInfo) *x509.Certificate {
	var info credentials.TLSInfo
	switch a := auth.(type) {
	case credentials.TLSInfo:
		info = a
	case *credentials.TLSInfo:
		if a == nil {
			return nil
		}
		info = *a
	default:
		return nil
	}
	if chains := info.State.VerifiedChains; len(chains) > 0 && len(chains[0]) > 0 {
		return chains[0][0]
	}
	return nil
}

// isSPIFFE tells whether a URI has the form of a SPIFFE id: a trust domain and a
// path, and nothing that could make two texts mean one id.
func isSPIFFE(u *url.URL) bool {
	if u.Scheme != "spiffe" || u.Host == "" || u.Opaque != "" || u.User != nil ||
		u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" {
		return false
	}
	for _, r := range u.Host {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789.-_", r) {
			return false
		}
	}
	if u.Path == "" {
		return true
	}
	for seg := range strings.SplitSeq(strings.TrimPrefix(u.Path, "/"), "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return len(u.String()) <= 2048
}
