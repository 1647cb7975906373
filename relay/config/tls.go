package config

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Certificates are what one side shows of itself, and whose it takes. Files are in
// PEM form where nothing else is said, and read again when they change.
type Certificates struct {
	// What this node shows of itself: a certificate, with those between it and the
	// authority.
	CertFile string `yaml:"cert_file"`
	// The certificate's private key.
	KeyFile string `yaml:"key_file"`
	// The authorities that the other side's certificate has to come from. Where none
	// are named, nor SPIFFE bundles, a server needs one of the system's, and clients
	// are asked for none.
	CAFile string `yaml:"ca_file"`
	// Files with the authorities of SPIFFE trust domains, by the domain's name, in the
	// form of SPIFFE bundles (a JWK set). Only they speak for SPIFFE ids, each for
	// those of its domain; an authority of ca_file speaks for all other names.
	SPIFFEBundles Bundles `yaml:"spiffe_bundles"`
	// The address of a SPIFFE Workload API, like unix:///run/spire/agent.sock. It
	// gives the certificate, unless cert_file does, and bundles beside those above.
	WorkloadAPI string `yaml:"workload_api"`
	// The least version of TLS that is spoken: "1.3" or "1.2".
	MinVersion TLSVersion `yaml:"min_version"`
}

// TLS is how a server is dialled.
type TLS struct {
	Certificates
	// The name that the server's certificate has to be for. Empty means the host that
	// is dialled.
	ServerName string `yaml:"server_name"`
	// The SPIFFE ids that the other side may have, instead of a name; one that ends
	// with /* stands for all below it. Required with SPIFFE bundles alone, since all
	// workloads of a trust domain have certificates of them.
	PeerIDs []string `yaml:"peer_ids"`
}

// OriginTLS is how a control plane is dialled.
type OriginTLS struct {
	// Speaks TLS although nothing else is said: the server's certificate has to be of
	// an authority of the system and for the host that is dialled. Any other field of
	// this section but min_version turns TLS on as well.
	Enabled bool `yaml:"enabled"`
	TLS
}

// On tells whether TLS is spoken.
func (t *OriginTLS) On() bool { return t.Enabled || t.TLS.On() }

// ServerTLS is how clients are let in. It is on where there is a certificate.
type ServerTLS struct {
	Certificates
	// Whether clients have to show a certificate (require), may (optional), or are
	// not asked (none). Empty means require if ca_file, spiffe_bundles or workload_api
	// say whose is taken, and none otherwise.
	ClientAuth ClientAuth `yaml:"client_auth"`
}

// On tells whether TLS is spoken.
func (t *ServerTLS) On() bool { return t.CertFile != "" || t.WorkloadAPI != "" }

// AsksClients tells whether clients are asked for certificates.
func (t *ServerTLS) AsksClients() bool {
	switch t.ClientAuth {
	case ClientAuthNone:
		return false
	case ClientAuthAuto:
		return t.On() && t.trusts()
	}
	return t.On()
}

// trusts tells whether there are authorities of the other side.
func (c *Certificates) trusts() bool { return c.CAFile != "" || c.spiffe() }

// spiffe tells whether there are bundles.
func (c *Certificates) spiffe() bool { return len(c.SPIFFEBundles) > 0 || c.WorkloadAPI != "" }

// On tells whether anything is configured.
func (t *TLS) On() bool {
	return t.CertFile != "" || t.trusts() || t.ServerName != "" || len(t.PeerIDs) > 0
}

// defaultCertificates are none.
func defaultCertificates() Certificates { return Certificates{MinVersion: TLS13} }

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
