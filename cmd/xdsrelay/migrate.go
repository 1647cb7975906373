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

// newMigrateCmd translates the configuration of xds-relay.
func (a *app) newMigrateCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate FILE...",
		Short: "Translate the configuration of Envoy's xds-relay",
		Long: "Translate a bootstrap file of Envoy's xds-relay, its file of aggregation rules, or both\n" +
			"into one configuration file on standard output. Clients that shared a key still share\n" +
			"a key. Comments in the file and lines on standard error list differences, and fields\n" +
			"without a counterpart.",
		Example: "  xdsrelay migrate bootstrap.yaml aggregation-rules.yaml > relay.yaml\n" +
			"  xdsrelay config validate -c relay.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("expected FILE: a bootstrap file of xds-relay, its aggregation rules, or both")
			}
			return nil
		},
		RunE: a.action(func(_ *cobra.Command, args []string) error { return a.migrate(args) }),
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
	// Only a valid result is printed.
	_, err = config.Load(config.Input{File: "the result", Data: res.Text, WithoutUpstream: !res.Origin})
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return errors.New("xdsrelay has no equivalent configuration:\n" + wrong.Error()) // not a mistake of the user
	} else if err != nil {
		return err
	}
	_, err = a.stdout.Write(res.Text)
	return err
}

// readSome reads at most limit+1 bytes of a file.
func readSome(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
