package main

import (
	"github.com/spf13/cobra"

	"xdsrelay/bench/certs"
	"xdsrelay/bench/floor"
)

// newFloorCmd is the reference.
func (a *app) newFloorCmd() *cobra.Command {
	var (
		s         serving
		cfg       floor.Config
		tcp, sotw bool
		files     certs.Files
	)
	cmd := &cobra.Command{
		Use:   "floor",
		Short: "Be the reference that knows no protocol",
		Long: "Broadcast each change as one message, encoded once, to all streams, as grpc-go or,\n" +
			"with --tcp, plain TCP can do it at best. Received messages are only counted. An\n" +
			"interrupt ends it with the counts.",
		Example: "  xdsbench floor --sync --every 1s\n" +
			"  xdsbench floor --sotw --size 1000 --every 1s",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			if err := s.check(); err != nil {
				return err
			}
			cfg.Spec, cfg.Delta, cfg.Transport = s.spec, cfg.Delta && !sotw, floor.GRPC
			if tcp {
				cfg.Transport = floor.TCP
			}
			var err error
			if cfg.TLS, err = files.ServerConfig(); err != nil {
				return usageError{err}
			}
			f, err := floor.New(cfg)
			if err != nil {
				return usageError{err}
			}
			return s.run(cmd.Context(), a, f)
		}),
	}
	s.addFlags(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&cfg.Sync, "sync", false, "answer the first request for each type with everything there is")
	flags.BoolVar(&tcp, "tcp", false, "write to plain TCP connections")
	flags.BoolVar(&cfg.Delta, "delta", true, "send messages of the incremental variant")
	flags.BoolVar(&sotw, "sotw", false, "send messages of state of the world")
	flags.StringVar(&files.CA, "tls-ca", "", "the `FILE` with the clients' certificate authority; encrypts connections")
	flags.StringVar(&files.Server, "tls-cert", "", "the `FILE` with the floor's certificate")
	flags.StringVar(&files.Key, "tls-key", "", "the `FILE` with the floor's key")
	cmd.MarkFlagsRequiredTogether("tls-ca", "tls-cert", "tls-key")
	cmd.MarkFlagsMutuallyExclusive("delta", "sotw")
	cmd.MarkFlagsMutuallyExclusive("tcp", "tls-ca")
	return cmd
}
