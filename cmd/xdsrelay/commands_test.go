package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommandsOfPages: the commands that the documents at the top of the repository and in docs show
// have such names, flags and numbers of arguments.
func TestCommandsOfPages(t *testing.T) {
	files, err := filepath.Glob("../../*.md")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir("../../docs", func(name string, _ fs.DirEntry, err error) error {
		if filepath.Ext(name) == ".md" {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	block, inline := regexp.MustCompile("(?s)```sh\n(.*?\n)```"), regexp.MustCompile("`(xdsrelay [a-z][^`]*)`")
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append(block.FindAllStringSubmatch(string(text), -1), inline.FindAllStringSubmatch(string(text), -1)...) {
			for line := range strings.SplitSeq(strings.ReplaceAll(m[1], "\\\n", " "), "\n") {
				for _, args := range callsOf(line) {
					found++
					if err := wellFormed(args, strings.HasPrefix(m[0], "```")); err != nil {
						t.Errorf("%s: xdsrelay %s: %v", file, strings.Join(args, " "), err)
					}
				}
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d commands were found: has the form changed?", found)
	}
}

// word is a word of a shell command, or what ends one.
var word = regexp.MustCompile(`'[^']*'|"[^"]*"|&&|\|\||[;|&>]|[^\s;|&>'"]+`)

// callsOf returns the arguments of each call of xdsrelay in a line.
func callsOf(line string) (calls [][]string) {
	var args []string
	in, first := false, true
	for _, w := range append(word.FindAllString(line, -1), ";") {
		switch {
		case w == "#" || strings.ContainsAny(w[:1], ";|&>#"):
			if in {
				calls = append(calls, args)
			}
			if args, in, first = nil, false, true; strings.HasPrefix(w, "#") {
				return calls
			}
			continue
		case in:
			args = append(args, strings.Trim(w, `'"`))
		default:
			in = first && (w == "xdsrelay" || w == "bin/xdsrelay") || w == "/xdsrelay" // the last in a container
		}
		first = false
	}
	return calls
}

// wellFormed checks a command line as far as it can be without doing anything. One that
// is not whole may lack what is required.
func wellFormed(args []string, whole bool) error {
	root := (&app{}).newRootCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil || !whole {
		return err
	}
	if err := cmd.ValidateRequiredFlags(); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}
