package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Certificates are what one side presents, and what it accepts. Files are in PEM form
// unless stated otherwise, and read again when they change.
type Certificates struct {
	// The certificate that this node presents, with its intermediates.
	CertFile string `yaml:"cert_file"`
	// The private key of the certificate.
	KeyFile string `yaml:"key_file"`
	// The authorities that must have issued the certificate of the other side. Without
	// these and SPIFFE bundles, a server must have a certificate of a system authority,
	// and clients are not asked for one.
	CAFile string `yaml:"ca_file"`
	// Files with the authorities of SPIFFE trust domains, by domain name, as SPIFFE
	// bundles (a JWK set). Only they verify SPIFFE ids, each for its domain; an authority
	// in ca_file verifies all other names.
	SPIFFEBundles Bundles `yaml:"spiffe_bundles"`
	// The address of a SPIFFE Workload API, like unix:///run/spire/agent.sock. It
	// provides the certificate, unless cert_file does, and additional bundles.
	WorkloadAPI string `yaml:"workload_api"`
	// The lowest version of TLS: "1.3" or "1.2". Both sides negotiate the highest that
	// they support. Ports for clients default to "1.2", which Envoy as a client uses
	// unless its configuration sets tls_maximum_protocol_version: TLSv1_3.
	MinVersion TLSVersion `yaml:"min_version"`
}

// TLS is how the relay connects to a server.
type TLS struct {
	Certificates
	// The name that the certificate of the server must have. Empty means the host of the
	// address.
	ServerName string `yaml:"server_name"`
	// The SPIFFE ids that the other side may have, instead of a name; one that ends in
	// /* covers all ids below it. Required with SPIFFE bundles and no ca_file, since all
	// workloads of a trust domain have certificates of its authorities.
	SPIFFEIDs []string `yaml:"spiffe_ids"`
}

// UpstreamTLS is how the relay connects to a control plane.
type UpstreamTLS struct {
	// Enables TLS without any other field: the certificate of the server must be of a
	// system authority and for the host of the address. Any other field of this section
	// except min_version enables TLS, too.
	Enabled bool `yaml:"enabled"`
	TLS
}

// On reports whether TLS is on.
func (t *UpstreamTLS) On() bool { return t.Enabled || t.TLS.On() }

// ServerTLS is how a port authenticates itself and its clients. It is on where there is
// a certificate.
type ServerTLS struct {
	Certificates
	// Whether clients must present a certificate (require), may present one (optional),
	// or are not asked for one (none). Empty means require if ca_file, spiffe_bundles or
	// workload_api is set, and none otherwise.
	ClientAuth ClientAuth `yaml:"client_auth"`
}

// On reports whether TLS is on.
func (t *ServerTLS) On() bool { return t.CertFile != "" || t.WorkloadAPI != "" }

// AsksClients reports whether clients are asked for certificates.
func (t *ServerTLS) AsksClients() bool {
	switch t.ClientAuth {
	case ClientAuthNone:
		return false
	case ClientAuthAuto:
		return t.On() && t.trusts()
	}
	return t.On()
}

// trusts reports whether there are authorities of the other side.
func (c *Certificates) trusts() bool { return c.CAFile != "" || c.spiffe() }

// spiffe reports whether there are bundles.
func (c *Certificates) spiffe() bool { return len(c.SPIFFEBundles) > 0 || c.WorkloadAPI != "" }

// On reports whether anything is configured.
func (t *TLS) On() bool {
	return t.CertFile != "" || t.trusts() || t.ServerName != "" || len(t.SPIFFEIDs) > 0
}

// defaultCertificates are none.
func defaultCertificates() Certificates { return Certificates{MinVersion: TLS13} }

// clientCertificates are the default of ports for clients: Envoy as a client uses TLS 1.2
// unless its configuration says otherwise.
func clientCertificates() Certificates { return Certificates{MinVersion: TLS12} }

// ClientAuth says what is wanted of the certificates of clients.
type ClientAuth string

// What may be wanted.
const (
	ClientAuthAuto     ClientAuth = ""
	ClientAuthRequire  ClientAuth = "require"
	ClientAuthOptional ClientAuth = "optional"
	ClientAuthNone     ClientAuth = "none"
)

// UnmarshalText takes the name of a mode, or nothing.
func (c *ClientAuth) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*c = ClientAuthAuto
		return nil
	}
	return oneOf(c, text, ClientAuthRequire, ClientAuthOptional, ClientAuthNone)
}

// TLSVersion is a version of TLS.
type TLSVersion string

// The versions.
const (
	TLS13 TLSVersion = "1.3"
	TLS12 TLSVersion = "1.2"
)

// UnmarshalText takes a version.
func (v *TLSVersion) UnmarshalText(text []byte) error { return oneOf(v, text, TLS13, TLS12) }

// Bundles are names of files, by trust domain. As text they are DOMAIN=FILE, with
// commas in between.
type Bundles map[string]string

// UnmarshalText takes DOMAIN=FILE with commas in between.
func (b *Bundles) UnmarshalText(text []byte) error {
	out := make(Bundles)
	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		domain, file, ok := strings.Cut(item, "=")
		if !ok || domain == "" || file == "" {
			return errors.New("expected DOMAIN=FILE, with commas in between")
		}
		out[domain] = file
	}
	*b = nil
	if len(out) > 0 {
		*b = out
	}
	return nil
}

// String writes them as YAML.
func (b Bundles) String() string {
	var items []string
	for _, domain := range slices.Sorted(maps.Keys(b)) {
		items = append(items, domain+": "+b[domain])
	}
	return "{" + strings.Join(items, ", ") + "}"
}
