// Package bootstrap writes what clients need to find a relay: the bootstrap of an
// Envoy, and that of the xDS clients of the gRPC libraries.
package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Options are who the client is, and where and how it finds its relay.
type Options struct {
	// Addresses are those of the relay's clients' port, each host:port. At least one.
	Addresses []string
	// NodeID and Cluster are what the client calls itself, and Locality where it is.
	// NodeID is required; by default the relay groups clients by Cluster.
	NodeID, Cluster string
	Locality        Locality
	// SotW asks an Envoy to speak the state of the world variant, and not delta. gRPC
	// libraries speak no other.
	SotW bool
	// Features are the server_features of a gRPC bootstrap (gRFC A88), of [Features].
	// An Envoy has none.
	Features []string
	// TLS is how the relay is spoken to.
	TLS TLS
}

// Locality is where a client is. All fields may be empty.
type Locality struct{ Region, Zone, SubZone string }

// TLS names files in PEM form, as the client sees them. Without any, and where On
// is false, the relay is spoken to without TLS. gRPC clients read the files again
// every minute. An Envoy reads them when it starts, as it does with all that its
// bootstrap names but secrets of SDS.
type TLS struct {
	// On asks for TLS where no file is named: the authorities of the client's system
	// are trusted then, and no certificate is shown.
	On bool
	// CAFile are the authorities that the relay's certificate may come from.
	CAFile string
	// CertFile and KeyFile are what the client shows of itself: both or none.
	CertFile, KeyFile string
	// ServerName is the name that the certificates of all relays are for, for an Envoy
	// only. Empty means that each certificate is for the host of its address.
	ServerName string
}

func (t TLS) used() bool { return t.On || t.CAFile != "" || t.CertFile != "" || t.ServerName != "" }

// systemRoots are the authorities of Debian and of most images, for an Envoy that is
// not told any: it would take every certificate otherwise.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// check says what is missing or contradicts itself.
func (o Options) check() error {
	if len(o.Addresses) == 0 {
		return errors.New("the address of the relay is missing, expected at least one host:port")
	}
	for _, a := range o.Addresses {
		if _, _, err := split(a); err != nil {
			return err
		}
	}
	if o.NodeID == "" {
		return errors.New("the node ID of the client is missing")
	}
	if (o.TLS.CertFile == "") != (o.TLS.KeyFile == "") {
		return errors.New("the client's certificate and its private key belong together; only one of them is set")
	}
	return nil
}

// split takes an address apart.
func split(address string) (host string, port uint32, err error) {
	host, text, err := net.SplitHostPort(address)
	n, wrong := strconv.ParseUint(text, 10, 16)
	if err != nil || wrong != nil || n == 0 || host == "" || strings.ContainsAny(host, " /") {
		return "", 0, fmt.Errorf("the address of the relay is %q, expected host:port", address)
	}
	return host, uint32(n), nil
}
