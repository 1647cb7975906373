package main

import (
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/bench/origin"
)

// newOriginCmd is a control plane.
func (a *app) newOriginCmd() *cobra.Command {
	var s serving
	cache := ""
	var reports time.Duration
	cmd := &cobra.Command{
		Use:   "origin",
		Short: "Be a control plane on go-control-plane",
		Long: "Serve generated resources from one of go-control-plane's caches, change them by\n" +
			"schedule, and count the messages of the streams. An interrupt ends it with the\n" +
			"counts.",
		Example: "  xdsbench origin --listen 127.0.0.1:18000 --keys 10 --every 1s\n" +
			"  xdsbench origin --resources 1000 --change burst --burst 50 --change-type eds --every 500ms",
		Args: cobra.NoArgs,
		RunE: a.action(func(cmd *cobra.Command) error {
			if err := s.check(); err != nil {
				return err
			}
			o, err := origin.New(origin.Config{Spec: s.spec, Cache: origin.Kind(cache), Loads: reports > 0, LoadsEvery: reports})
			if err != nil {
				return usageError{err}
			}
			return s.run(cmd.Context(), a, o)
		}),
	}
	s.addFlags(cmd)
	cmd.Flags().StringVar(&cache, "cache", string(origin.Linear), "the cache of go-control-plane: snapshot or linear")
	cmd.Flags().DurationVar(&reports, "load-reports", 0, "the interval of the load reports that it asks for; 0 means none")
	return cmd
}
