package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// contexts are the tiers that a user operates, from the user's file.
type contexts struct {
	path string // of the file; empty if the environment names no home directory

	Current string        `yaml:"current_context"`
	All     []tierContext `yaml:"contexts"`
}

// tierContext says how to reach the admin port of a node of one tier. Relative paths start at the
// folder of the file.
type tierContext struct {
	Name      string `yaml:"name" json:"name"`
	Admin     string `yaml:"admin" json:"admin"`
	CAFile    string `yaml:"ca_file" json:"ca_file,omitempty"`
	CertFile  string `yaml:"cert_file" json:"cert_file,omitempty"`
	KeyFile   string `yaml:"key_file" json:"key_file,omitempty"`
	TokenFile string `yaml:"token_file" json:"token_file,omitempty"`
}

// contextsHint names the command that lists contexts.
const contextsHint = "'xdsrelay context list' lists the contexts"

// maxContexts bounds the file, in bytes.
const maxContexts = 1 << 20

// contextsPath returns where the file is: XDG_CONFIG_HOME is honored, as by other programs.
func contextsPath(env []string) string {
	dir := variable(env, "XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // the specification wants relative paths to be ignored
		home := variable(env, "HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "xdsrelay", "config.yaml")
}

// readContexts reads the file. Without one there are no contexts.
func readContexts(env []string) (contexts, error) {
	c := contexts{path: contextsPath(env)}
	if c.path == "" {
		return c, nil
	}
	text, err := readSome(c.path, maxContexts)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return c, usageError{fmt.Errorf("contexts: %w", err)}
	case len(text) > maxContexts:
		return c, usageError{fmt.Errorf("contexts: %s has more than %d bytes", c.path, maxContexts)}
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&c); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return c, usageError{fmt.Errorf("contexts: %s: %s", c.path, yaml.FormatError(err, false, false))}
	}
	err = c.check()
	return c, err
}

// check returns what is wrong with the contexts, and makes their paths absolute.
func (c *contexts) check() error {
	seen := map[string]bool{}
	for i := range c.All {
		one := &c.All[i]
		switch {
		case one.Name == "":
			return usageError{fmt.Errorf("contexts: %s: contexts[%d].name is missing", c.path, i)}
		case seen[one.Name]:
			return usageError{fmt.Errorf("contexts: %s: contexts[%d].name: %q is used twice", c.path, i, one.Name)}
		}
		seen[one.Name] = true
		if _, err := baseURL(fmt.Sprintf("contexts: %s: contexts[%d].admin", c.path, i), one.Admin); err != nil {
			return err
		}
		for _, file := range []*string{&one.CAFile, &one.CertFile, &one.KeyFile, &one.TokenFile} {
			if *file != "" && !filepath.IsAbs(*file) {
				*file = filepath.Join(filepath.Dir(c.path), *file)
			}
		}
	}
	return nil
}

// find returns the context of a name.
func (c *contexts) find(name string) (tierContext, error) {
	i := slices.IndexFunc(c.All, func(one tierContext) bool { return one.Name == name })
	switch {
	case i >= 0:
		return c.All[i], nil
	case c.path == "":
		return tierContext{}, usageError{fmt.Errorf("context %q does not exist: neither XDG_CONFIG_HOME nor HOME is set", name)}
	}
	return tierContext{}, usageError{fmt.Errorf("context %q does not exist in %s; %s", name, c.path, contextsHint)}
}

// use makes a context the current one. All else in the file stays, comments too.
func (c *contexts) use(name string) error {
	if _, err := c.find(name); err != nil {
		return err
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return err
	}
	quoted, err := yaml.Marshal(name)
	if err != nil {
		return err
	}
	line, found := "current_context: "+string(quoted), false
	var out strings.Builder
	for old := range strings.Lines(string(text)) {
		if !found && strings.HasPrefix(old, "current_context:") {
			old, found = line, true
		}
		out.WriteString(old)
	}
	content := out.String()
	if !found {
		content = line + content
	}
	return replaceFile(c.path, content)
}

// replaceFile replaces a file at once, so that no other process reads half of it.
func replaceFile(path, content string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // only its user may read it
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails after the rename
	_, err = tmp.WriteString(content)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
