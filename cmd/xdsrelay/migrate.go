package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
	"xdsrelay/relay/migrate"
)

// newMigrateCmd writes a configuration for those who come from xds-relay.
func (a *app) newMigrateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate FILE...",
		Short: "Write the configuration that does what files of Envoy's xds-relay do",
		Long: "Write, to standard output, the configuration that does what a bootstrap file of\n" +
			"Envoy's xds-relay, its file of aggregation rules, or both together do. Clients\n" +
			"share a key if they did there. What is different, or has no counterpart, is told\n" +
			"on standard error and in comments.",
		Example: "  xdsrelay migrate bootstrap.yaml aggregation-rules.yaml > relay.yaml\n" +
			"  xdsrelay check -c relay.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("expected a bootstrap file of xds-relay, its aggregation rules, or both")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.began = true
			return a.migrate(args)
		},
	}
}

func (a *app) migrate(names []string) error {
	var files []migrate.File
	for _, name := range names {
		data, err := readSome(name, 1<<20)
		if err != nil {
			return usageError{err}
		}
		files = append(files, migrate.File{Name: name, Data: data})
	}
	res, err := migrate.Translate(files...)
	if err != nil {
		return usageError{err}
	}
	for _, w := range res.Warnings {
		fmt.Fprintf(a.stderr, "%s\n", w)
	}
	// A node takes the result, or nobody gets to see it.
	_, err = config.Load(config.Input{File: "the result", Data: res.Text, WithoutUpstream: !res.Origin})
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return errors.New("this cannot be done by a configuration of xdsrelay:\n" + wrong.Error()) // not mistakes of the user
	} else if err != nil {
		return err
	}
	_, err = a.stdout.Write(res.Text)
	return err
}

// readSome reads a file, of which it returns one byte more than limit at most.
func readSome(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
