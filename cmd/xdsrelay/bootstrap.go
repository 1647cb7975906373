package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/bootstrap"
)

// newBootstrapCmd prints the bootstrap of a client.
func (a *app) newBootstrapCmd() *cobra.Command {
	return newParentCmd("bootstrap", "Print the bootstrap of an Envoy or gRPC client that connects to a relay",
		a.newBootstrapOfCmd("envoy", "Print the bootstrap of an Envoy as YAML",
			"Print the bootstrap of an Envoy as YAML. The Envoy gets its listeners and clusters, and\n"+
				"all resources that these refer to, from the relay over one aggregated stream (ADS).",
			"  xdsrelay bootstrap envoy --relay relay.example:18000 --node-id web-1 --node-cluster web > envoy.yaml\n"+
				"  envoy -c envoy.yaml", bootstrap.Envoy),
		a.newBootstrapOfCmd("grpc", "Print the bootstrap of a gRPC client as JSON",
			"Print the bootstrap of a gRPC client as JSON. The environment variable\n"+
				"GRPC_XDS_BOOTSTRAP of the client names the file.",
			"  xdsrelay bootstrap grpc --relay relay.example:18000 --node-id web-1 --node-cluster web > xds.json\n"+
				"  GRPC_XDS_BOOTSTRAP=xds.json my-client", bootstrap.GRPC),
	)
}

// newBootstrapOfCmd prints the bootstrap of one kind of client.
func (a *app) newBootstrapOfCmd(use, short, long, example string, render func(bootstrap.Options) ([]byte, error)) *cobra.Command {
	var (
		o       bootstrap.Options
		variant string
	)
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example,
		Args: cobra.NoArgs,
		RunE: a.action(func(*cobra.Command, []string) error {
			o.SotW = variant == "sotw"
			if use == "envoy" && variant != "sotw" && variant != "delta" {
				return usageError{fmt.Errorf("--variant: got %q, expected delta or sotw", variant)}
			}
			text, err := render(o)
			if err != nil {
				return usageError{err}
			}
			_, err = a.stdout.Write(text)
			return err
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Addresses, "relay", nil, "`HOST:PORT` of the relay's port for clients; several separated by commas")
	flags.StringVar(&o.NodeID, "node-id", "", "`ID` of the client, unique for each client")
	flags.StringVar(&o.Cluster, "node-cluster", "", "cluster `NAME` of the client, from which the default rule computes the aggregation key")
	flags.StringVar(&o.Locality.Region, "region", "", "`REGION` of the client")
	flags.StringVar(&o.Locality.Zone, "zone", "", "`ZONE` of the client")
	flags.StringVar(&o.Locality.SubZone, "sub-zone", "", "`SUBZONE` of the client")
	flags.BoolVar(&o.TLS.On, "tls", false, "use TLS, and verify the relay with the CA certificates of the client's system or of --ca")
	flags.StringVar(&o.TLS.CAFile, "ca", "", "`FILE` on the client with the CA certificates that verify the relay; enables TLS")
	flags.StringVar(&o.TLS.CertFile, "cert", "", "`FILE` on the client with its certificate; enables TLS")
	flags.StringVar(&o.TLS.KeyFile, "cert-key", "", "`FILE` on the client with the private key of its certificate; enables TLS")
	if use == "grpc" {
		flags.StringSliceVar(&o.Features, "server-features", nil, "`LIST` of "+strings.Join(bootstrap.Features, " and ")+", separated by commas: how clients handle errors (gRFC A88)")
	}
	if use == "envoy" {
		flags.StringVar(&variant, "variant", "delta", "xDS `VARIANT` of the Envoy: delta or sotw")
		flags.StringVar(&o.TLS.ServerName, "server-name", "", "`NAME` in the certificates of all relays (default: the host in --relay)")
	}
	require(cmd, "relay")
	require(cmd, "node-id")
	return cmd
}
