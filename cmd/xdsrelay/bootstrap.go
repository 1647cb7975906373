package main

import (
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
			if use == "envoy" {
				if err := checkVariant(variant); err != nil {
					return err
				}
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
	addNode(flags, &o.NodeID, &o.Cluster, &o.Locality.Region, &o.Locality.Zone, &o.Locality.SubZone)
	addTLS(flags, "", "", &o.TLS)
	if use == "grpc" {
		flags.StringSliceVar(&o.Features, "server-features", nil, "`LIST` of "+strings.Join(bootstrap.Features, " and ")+", separated by commas: how clients handle errors (gRFC A88)")
	}
	if use == "envoy" {
		flags.StringVar(&variant, "variant", "delta", variantUsage)
		addServerName(flags, "", "", &o.TLS)
	}
	require(cmd, "relay")
	require(cmd, "node-id")
	return cmd
}
