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

var update = flag.Bool("update", false, "write golden files and docs/reference/cli.md again")

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
		t.Errorf("%s is out of date; go test ./cmd/xdsrelay -update writes it again. Now it would be\n%s", file, got)
	}
}

// cliIntroduction is the beginning of docs/reference/cli.md.
const cliIntroduction = `# Command line

<!-- Written by go test ./cmd/xdsrelay -update: the texts are those of --help. -->

## Connection to a node

Commands that inspect or operate a running tier connect to the admin port of one node, which asks the other nodes. They use, in this order: the flag $q$--admin$q$, the flag $q$--context$q$, the environment variable $q$` + config.CLIAdmin + `$q$, the current [context](#xdsrelay-context), $q$127.0.0.1:19000$q$. The token is in the file of $q$--admin-token-file$q$ or $q$` + config.CLITokenFile + `$q$. The environment variables of the configuration, such as $q$XDSRELAY_ADMIN_ADDRESS$q$, have no effect on these commands: a node may listen on $q$0.0.0.0:19000$q$, which is not an address to connect to.

## Output

Each command that prints data has the flag $q$-o$q$:

| Form | Output |
|---|---|
| $q$table$q$ | aligned columns for people |
| $q$wide$q$ | more columns, full versions |
| $q$json$q$, $q$yaml$q$ | all fields, for programs |
| $q$name$q$ | one name per line, for shell loops; resources as $q$TYPE/NAME$q$ |

Data is on standard output. Warnings, and nodes that do not answer, are on standard error, except for $q$json$q$ and $q$yaml$q$, which contain these nodes in $q$silent$q$.

## Exit codes

| Code | Meaning |
|---|---|
| 0 | ` + usuallyOK + ` |
| 1 | ` + usuallyFailed + ` |
| 2 | ` + usuallyWrong + ` |

Commands with other exit codes list them below and in $q$--help$q$.

## Shell completion and man pages

$q$xdsrelay completion bash$q$ (or zsh, fish, powershell) prints a script that completes commands, flags, keys, clients, nodes and contexts. $q$make man$q$ writes man pages to $q$bin/man$q$ and these scripts to $q$bin/completions$q$.

## Commands

`

// TestCommandPage holds that docs/reference/cli.md describes all commands.
func TestCommandPage(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(strings.ReplaceAll(cliIntroduction, "$q$", "`"))
	root := (&app{}).newRootCmd()
	all := commandsBelow(root)
	b.WriteString("| Command | Purpose |\n|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
	}
	for _, c := range all {
		describeCommand(&b, c)
	}
	golden(t, "../../docs/reference/cli.md", b.String())
}

// commandsBelow returns the commands of the program itself, group by group.
func commandsBelow(root *cobra.Command) (all []*cobra.Command) {
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		all = append(all, c)
		for _, sub := range c.Commands() {
			if sub.Name() != "help" {
				add(sub)
			}
		}
	}
	for _, g := range root.Groups() {
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && c.Name() != "help" && c.Name() != "completion" {
				add(c)
			}
		}
	}
	return all
}

// markdownOf returns the text of a command as Markdown: lines that are indented keep their layout.
func markdownOf(long string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(long, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			fmt.Fprintf(&b, "```text\n%s\n```\n\n", strings.TrimSuffix(paragraph, "\n"))
		} else if paragraph != "" {
			fmt.Fprintf(&b, "%s\n\n", strings.ReplaceAll(paragraph, "\n", " "))
		}
	}
	return b.String()
}

func describeCommand(b *bytes.Buffer, c *cobra.Command) {
	fmt.Fprintf(b, "\n## %s\n\n", c.CommandPath())
	b.WriteString(markdownOf(c.Long))
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
	if table, own := exitCodesOf(c); own {
		fmt.Fprintf(b, "\nExit codes:\n\n```text\n%s```\n", table)
	}
	if c.Example != "" {
		fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(c.Example, "  "), "\n  ", "\n"))
	}
}
