package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"xdsrelay/relay/aggregation"
)

// Input is the sources of a configuration. Later fields override earlier ones, and all
// override the defaults.
type Input struct {
	// File is the path of the YAML file; empty means none.
	File string
	// Data is the content of the file, if not nil: File is then only its name, for messages.
	Data []byte
	// Env is the environment, in the form of os.Environ. Variables that begin with
	// XDSRELAY_ set the field of that name; lists of texts are split at commas.
	Env []string
	// Flags are set in order.
	Flags []Flag
	// WithoutUpstream says that no upstream is needed, and none is checked.
	WithoutUpstream bool
	// WithoutFiles says that files which fields refer to need not exist: the configuration
	// is of another machine.
	WithoutFiles bool
	// Files says that the files which fields refer to are checked, too: whether
	// certificates are valid now, and directories are writable.
	Files bool
}

// Flag is a field that a flag of the command line sets.
type Flag struct {
	// Name is the flag, like --listen, for messages.
	Name string
	// Field is the path, like listener.address. For aggregation.rules, Value is the key
	// expression of the only rule. Where authorization.allow_any is set to true, it
	// replaces the rules.
	Field string
	Value string
}

// Load reads a configuration and checks it. The error is an [*Error] with all mistakes,
// unless the file cannot be read.
func Load(in Input) (*Config, error) {
	data := in.Data
	if data == nil && in.File != "" {
		var err error
		if data, err = readFile(in.File); err != nil {
			return nil, err
		}
	}
	cfg := Default()
	d := decodeFile(in.File, data, cfg)
	if d.unread {
		return nil, d.err()
	}
	d.decodeEnv(in.Env, cfg)
	d.decodeFlags(in.Flags, cfg)
	d.withoutUpstream, d.withoutFiles = in.WithoutUpstream, in.WithoutFiles
	d.check(cfg)
	d.checkUnused(cfg)
	if in.Files {
		d.checkFiles(cfg)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// readFile reads at most one byte more than allowed.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	return data, nil
}

// Validate checks a configuration that is decoded or made in code. The error is an
// [*Error].
func (c *Config) Validate() error {
	d := &decoder{places: make(map[string]place)}
	d.check(c)
	return d.err()
}

// err is the problems in the order of the file, those without a line last.
func (d *decoder) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(d.problems, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Problems: d.problems}
}

func (d *decoder) decodeFlags(flags []Flag, cfg *Config) {
	for _, f := range flags {
		at := place{source: f.Name}
		d.override(f.Field, at, f.Value)
		if f.Field == "aggregation.rules" {
			cfg.Aggregation.Rules = []aggregation.Rule{{Name: strings.TrimLeft(f.Name, "-"), Key: f.Value}}
			continue
		}
		if f.Field == "authorization.allow_any" && f.Value == "true" {
			d.override("authorization.rules", at, "")
			cfg.Authorization.Rules = nil
		}
		if err := setField(cfg, f.Field, f.Value); err != nil {
			d.fail(at, f.Field, "got %q, %s", shorten(f.Value), err)
		}
	}
}

// setField sets a field by its path.
func setField(cfg *Config, path, text string) error {
	for _, l := range leaves(cfg) {
		if l.path == path {
			return setText(l.value, text)
		}
	}
	return errors.New("no field " + path + " can be set by a flag or an environment variable")
}
