package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

var update = flag.Bool("update", false, "write golden files and docs/cli.md anew")

// golden compares with a file, which -update writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not what it should be; go test ./cmd/xdsrelay -update writes it anew. Now it would be\n%s", file, got)
	}
}

// TestCommandPage holds that docs/cli.md describes all commands as they are.
func TestCommandPage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# The command line\n\n<!-- Written by go test ./cmd/xdsrelay -update: the texts are those of --help. -->\n\n" +
		"Commands that ask a running node find its admin port by `--admin` or the environment variable `" + config.CLIAdmin + "`, and the token by `--admin-token-file` or `" + config.CLITokenFile + "`. " +
		"The variables of the configuration, such as `XDSRELAY_ADMIN_ADDRESS`, are for the node alone: it may listen at `0.0.0.0:19000`, which is no address to connect to. " +
		"The exit code is 0 if all is well, 1 if something failed and 2 if the command line or the configuration is wrong, unless the command says otherwise. " +
		"`xdsrelay completion bash` (or zsh, fish, powershell) writes what completes commands, keys, clients and nodes in a shell.\n\n")
	root := (&app{}).newRootCmd()
	root.InitDefaultCompletionCmd()
	var all []*cobra.Command
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				all = append(all, sub)
				walk(sub)
			}
		}
	}
	walk(root)
	b.WriteString("| Command | |\n|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range all {
		describeCommand(&b, c)
	}
	api, err := os.ReadFile("testdata/api.md")
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n")
	b.Write(api)
	golden(t, "../../docs/cli.md", b.String())
}

func describeCommand(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	for paragraph := range strings.SplitSeq(c.Long, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			fmt.Fprintf(b, "```text\n%s\n```\n\n", paragraph)
		} else if paragraph != "" {
			fmt.Fprintf(b, "%s\n\n", strings.ReplaceAll(paragraph, "\n", " "))
		}
	}
	if c.Long == "" {
		fmt.Fprintf(b, "%s.\n\n", c.Short)
	}
	if !c.Runnable() {
		return
	}
	fmt.Fprintf(b, "```text\n%s\n", c.UseLine())
	if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(b, "\n%s", flags)
	}
	b.WriteString("```\n")
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
}
