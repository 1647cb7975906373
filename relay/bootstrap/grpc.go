package bootstrap

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Features are the server features that change how a gRPC client handles errors
// (gRFC A88). Libraries ignore those that they do not know.
var Features = []string{"resource_timer_is_transient_error", "fail_on_data_errors"}

// refresh is how often gRPC libraries read the files of their certificates again.
const refresh = "60s"

// The fields of a gRPC bootstrap (gRFC A27, A65 for TLS).
type (
	grpcBootstrap struct {
		Servers []grpcServer `json:"xds_servers"`
		Node    grpcNode     `json:"node"`
	}
	grpcServer struct {
		URI         string            `json:"server_uri"`
		Credentials []grpcCredentials `json:"channel_creds"`
		Features    []string          `json:"server_features"`
	}
	grpcCredentials struct {
		Type   string   `json:"type"`
		Config *grpcTLS `json:"config,omitempty"`
	}
	grpcTLS struct {
		CAFile   string `json:"ca_certificate_file,omitempty"`
		CertFile string `json:"certificate_file,omitempty"`
		KeyFile  string `json:"private_key_file,omitempty"`
		Refresh  string `json:"refresh_interval"`
	}
	grpcNode struct {
		ID       string        `json:"id"`
		Cluster  string        `json:"cluster,omitempty"`
		Locality *grpcLocality `json:"locality,omitempty"`
	}
	grpcLocality struct {
		Region  string `json:"region,omitempty"`
		Zone    string `json:"zone,omitempty"`
		SubZone string `json:"sub_zone,omitempty"`
	}
)

// GRPC returns the bootstrap for xDS clients of the gRPC libraries as JSON, for the
// file that GRPC_XDS_BOOTSTRAP names. They go to a later address while no earlier
// one can be reached.
func GRPC(o Options) ([]byte, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.TLS.ServerName != "" {
		return nil, errors.New("gRPC clients verify the server's certificate by its address; another name is not possible")
	}
	if o.SotW {
		return nil, errors.New("gRPC clients always use the state-of-the-world variant")
	}
	for _, f := range o.Features {
		if !slices.Contains(Features, f) {
			return nil, fmt.Errorf("the server feature is %q, expected %s", f, strings.Join(Features, " or "))
		}
	}
	credentials := grpcCredentials{Type: "insecure"}
	if t := o.TLS; t.used() {
		credentials = grpcCredentials{Type: "tls", Config: &grpcTLS{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, Refresh: refresh}}
	}
	b := grpcBootstrap{Node: grpcNode{ID: o.NodeID, Cluster: o.Cluster}}
	if l := o.Locality; l != (Locality{}) {
		b.Node.Locality = &grpcLocality{l.Region, l.Zone, l.SubZone}
	}
	for _, address := range o.Addresses {
		b.Servers = append(b.Servers, grpcServer{URI: address, Credentials: []grpcCredentials{credentials}, Features: append([]string{"xds_v3"}, o.Features...)})
	}
	out, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}
