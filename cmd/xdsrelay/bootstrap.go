package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/bootstrap"
)

// newBootstrapCmd prints what clients need to find a relay.
func (a *app) newBootstrapCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print a bootstrap with which an Envoy or a gRPC client finds a relay",
		Args:  noSuchCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.newBootstrapOfCmd("envoy", "Print the bootstrap of an Envoy, as YAML",
			"Print the bootstrap of an Envoy, as YAML: it gets its listeners and clusters, and\n"+
				"what these name, from the relay over one stream.",
			"  xdsrelay bootstrap envoy --relay relay.example:18000 --node-id web-1 --node-cluster web > envoy.yaml\n"+
				"  envoy -c envoy.yaml", bootstrap.Envoy),
		a.newBootstrapOfCmd("grpc", "Print the bootstrap of a gRPC client, as JSON",
			"Print the bootstrap of the xDS clients of the gRPC libraries, as JSON: for the\n"+
				"file that the environment variable GRPC_XDS_BOOTSTRAP names.",
			"  xdsrelay bootstrap grpc --relay relay.example:18000 --node-id web-1 --node-cluster web > xds.json\n"+
				"  GRPC_XDS_BOOTSTRAP=xds.json my-client", bootstrap.GRPC),
	)
	return cmd
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
		RunE: a.action(func(*cobra.Command) error {
			o.SotW = variant == "sotw"
			if variant != "" && variant != "sotw" && variant != "delta" {
				return usageError{fmt.Errorf("the variant is %q, expected delta or sotw", variant)}
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
	flags.StringSliceVar(&o.Addresses, "relay", nil, "`HOST:PORT` where the relay serves clients; several with commas")
	flags.StringVar(&o.NodeID, "node-id", "", "`ID` of the client, another for each")
	flags.StringVar(&o.Cluster, "node-cluster", "", "`NAME` of what the client is one of; by default the relay groups by it")
	flags.StringVar(&o.Locality.Region, "region", "", "`REGION` that the client is in")
	flags.StringVar(&o.Locality.Zone, "zone", "", "`ZONE` that the client is in")
	flags.StringVar(&o.Locality.SubZone, "sub-zone", "", "`SUBZONE` that the client is in")
	flags.BoolVar(&o.TLS.On, "tls", false, "TLS, which the flags below imply; alone, with the authorities of the client's system")
	flags.StringVar(&o.TLS.CAFile, "ca", "", "`FILE` on the client with the authorities of the relay's certificate")
	flags.StringVar(&o.TLS.CertFile, "cert", "", "`FILE` on the client with its certificate")
	flags.StringVar(&o.TLS.KeyFile, "cert-key", "", "`FILE` on the client with the key of its certificate")
	if use == "grpc" {
		flags.StringSliceVar(&o.Features, "server-features", nil, "`LIST` of "+strings.Join(bootstrap.Features, " and ")+", with commas: how clients handle errors (gRFC A88)")
	}
	if use == "envoy" {
		flags.StringVar(&variant, "variant", "", "`delta|sotw`: the variant that the Envoy speaks, delta unless told otherwise")
		flags.StringVar(&o.TLS.ServerName, "server-name", "", "`NAME` that the certificates of all relays are for; by default each is for its host in --relay")
	}
	for _, required := range []string{"relay", "node-id"} {
		if err := cmd.MarkFlagRequired(required); err != nil {
			panic(err) // the flags are defined just above
		}
	}
	return cmd
}
