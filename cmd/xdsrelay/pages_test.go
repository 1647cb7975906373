package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// pagesDir is where TestPages writes the pages: they come from a test, so that the program does not
// contain what only they need.
var pagesDir = flag.String("pages", "", "folder in which to write man pages (man) and scripts for shells (completions)")

// TestPages: there is a man page for each command, and a script for each shell.
func TestPages(t *testing.T) {
	dir := *pagesDir
	if dir == "" {
		dir = t.TempDir()
	}
	man, completions := filepath.Join(dir, "man"), filepath.Join(dir, "completions")
	for _, one := range []string{man, completions} {
		if err := os.MkdirAll(one, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	root, texts := (&app{}).newRootCmd(), map[string]string{}
	for _, c := range append(commandsBelow(root), root) {
		texts[c.CommandPath()] = c.Long
		c.DisableAutoGenTag = true // it has the date
		table, _ := exitCodesOf(c)
		c.Long = markdownOf(strings.TrimSpace(c.Long) + "\n\nExit codes:\n\n" + table)
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "xdsrelay " + version, Manual: "xdsrelay"}, man); err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(string) error{
		"xdsrelay.bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"_xdsrelay":     root.GenZshCompletionFile,
		"xdsrelay.fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
		"xdsrelay.ps1":  root.GenPowerShellCompletionFileWithDesc,
	} {
		if err := write(filepath.Join(completions, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	unescaped := strings.NewReplacer(`\-`, "-", `\&`, "", `\e`, `\`, `\\`, `\`)
	for _, c := range commandsBelow(root) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		source, err := os.ReadFile(filepath.Join(man, name+".1"))
		page := unescaped.Replace(string(source))
		if err != nil || !strings.Contains(page, "Exit codes:") || !strings.Contains(page, `.TH "`+strings.ToUpper(name)+`" "1"`) {
			t.Errorf("%s: %v, or without exit codes or its name", c.CommandPath(), err)
		}
		for line := range strings.Lines(texts[c.CommandPath()]) {
			if strings.HasPrefix(line, "  ") && !strings.Contains(page, "\n"+line) {
				t.Errorf("%s: not on a line of its own: %s", name, line)
			}
		}
	}
}

// severalMeanings are the flags with more than one help text, by why.
var severalMeanings = map[string]string{
	"admin":   "the address of an admin port, with its default for each command",
	"listen":  "the address for clients, with its default for each command",
	"wait":    "the text says for what",
	"limit":   "the text says of what, with the default of each command; -n is for updates",
	"state":   "the text says of what: a type or a resource",
	"nodes":   "a number for demo, names elsewhere",
	"all":     "the text says of what: clients or keys",
	"output":  "",
	"help":    "",
	"version": "",
}

// TestFlagsHaveOneMeaning: a flag has the same help, shorthand and type in all commands.
func TestFlagsHaveOneMeaning(t *testing.T) {
	seen := map[string]*pflag.Flag{}
	for _, c := range commandsBelow((&app{}).newRootCmd()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			_, several := severalMeanings[f.Name]
			first := seen[f.Name]
			switch {
			case first == nil:
				seen[f.Name] = f
			case several:
			case first.Usage != f.Usage, first.Shorthand != f.Shorthand, first.Value.Type() != f.Value.Type():
				t.Errorf("%s --%s: %q, and elsewhere %q: use one text, or another name", c.CommandPath(), f.Name, f.Usage, first.Usage)
			}
			if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
				t.Errorf("%s --%s: the help is %q", c.CommandPath(), f.Name, f.Usage)
			}
		})
	}
}

// TestOutputEverywhere: commands that connect to a node have all forms of output.
func TestOutputEverywhere(t *testing.T) {
	for _, c := range commandsBelow((&app{}).newRootCmd()) {
		if c.Flags().Lookup("context") != nil && c.Flags().Lookup("output") == nil {
			t.Errorf("%s has no --output", c.CommandPath())
		}
		if c.Flags().Lookup("json") != nil {
			t.Errorf("%s has --json: use --output", c.CommandPath())
		}
	}
}
