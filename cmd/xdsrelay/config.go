package main

import (
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

// newConfigCmd is about configuration files.
func (a *app) newConfigCmd() *cobra.Command {
	cmd := newParentCmd("config", "Validate configuration files and document their fields", a.newConfigValidateCmd(), a.newConfigDefaultCmd(), a.newConfigEnvCmd())
	for _, p := range []struct {
		name, short string
		text        func() string
	}{
		{"schema", "Print the JSON Schema of configuration files, for editors", func() string { return string(config.Schema()) }},
		{"doc", "Print the reference of all fields in Markdown", config.Doc},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: p.name, Short: p.short, Args: cobra.NoArgs,
			RunE: a.action(func(*cobra.Command, []string) error {
				_, err := io.WriteString(a.stdout, p.text())
				return err
			}),
		})
	}
	return cmd
}

// newConfigDefaultCmd prints a file to start from.
func (a *app) newConfigDefaultCmd() *cobra.Command {
	minimal := false
	cmd := &cobra.Command{
		Use: "default", Short: "Print a configuration file with all fields, comments and defaults", Args: cobra.NoArgs,
		RunE: a.action(func(*cobra.Command, []string) error {
			text := config.DefaultYAML()
			if minimal {
				text = config.MinimalYAML()
			}
			_, err := io.WriteString(a.stdout, text)
			return err
		}),
	}
	cmd.Flags().BoolVar(&minimal, "minimal", false, "print only the fields that most users set")
	return cmd
}

// envVariable is an environment variable and the field that it sets.
type envVariable struct {
	Variable string `json:"variable"`
	Field    string `json:"field"`
}

// newConfigEnvCmd lists environment variables.
func (a *app) newConfigEnvCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env",
		Short: "List the environment variables and the fields that they set",
		Args:  cobra.NoArgs,
	}
	out := addOutput(cmd, asTable)
	cmd.RunE = a.action(func(*cobra.Command, []string) error {
		if err := out.check(); err != nil {
			return err
		}
		names := config.EnvNames()
		var all []envVariable
		for _, name := range slices.Sorted(maps.Keys(names)) {
			all = append(all, envVariable{name, names[name]})
		}
		return out.print(a.stdout, view{
			data:  map[string]any{"variables": all},
			names: namesOf(all, func(v *envVariable) string { return v.Variable }),
			table: func(w io.Writer, _ bool) {
				rows := [][]string{{"VARIABLE", "FIELD"}}
				for _, v := range all {
					rows = append(rows, []string{v.Variable, v.Field})
				}
				columns(w, rows)
			},
		})
	})
	return cmd
}
