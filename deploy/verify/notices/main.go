// Command notices lists the modules that are linked into a Go program, with the license of
// each: as a page of the documentation, or with the full texts for those who pass the program
// on. It reads what the Go linker has noted in the program, and the licenses in the module
// cache, so it runs where the program was built.
package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	texts := flag.Bool("texts", false, "print the full texts instead of the page")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: notices [-texts] PROGRAM")
		os.Exit(2)
	}
	modules, err := read(context.Background(), flag.Arg(0))
	if err == nil {
		if *texts {
			err = writeTexts(os.Stdout, modules)
		} else {
			err = writePage(os.Stdout, modules)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "notices: %v\n", err)
		os.Exit(1)
	}
}

// module is one that is linked into the program.
type module struct {
	path, version string
	license       string // SPDX identifiers, joined by AND
	direct        bool   // listed in go.mod as used by the repository itself
	files         []text
}

type text struct{ name, content string }

// read returns the modules of a program, and the Go standard library.
func read(ctx context.Context, program string) ([]module, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	direct, err := directOf(ctx, program)
	if err != nil {
		return nil, err
	}
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	std := module{path: "std", version: "of the Go release that builds it", direct: true}
	if err := std.find(strings.TrimSpace(string(root))); err != nil {
		return nil, err
	}
	all := []module{std}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		m := module{path: dep.Path, version: dep.Version, direct: direct[dep.Path]}
		dir, err := download(ctx, dep.Path, dep.Version)
		if err != nil {
			return nil, err
		}
		if err := m.find(dir); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// directOf returns the modules that the go.mod next to a program's repository requires directly.
func directOf(ctx context.Context, program string) (map[string]bool, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{if not .Indirect}}{{.Path}}{{end}}", "all")
	cmd.Dir = filepath.Dir(filepath.Dir(program))
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m all: %w", err)
	}
	all := make(map[string]bool)
	for path := range strings.FieldsSeq(string(out)) {
		all[path] = true
	}
	return all, nil
}

// download returns the folder of a module, which is fetched if it is not in the cache.
func download(ctx context.Context, path, version string) (string, error) {
	out, err := output(ctx, "go", "mod", "download", "-json", path+"@"+version)
	if err != nil {
		return "", err
	}
	var got struct{ Dir, Error string }
	if err := json.Unmarshal(out, &got); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", path, err)
	}
	if got.Error != "" {
		return "", errors.New(got.Error)
	}
	return got.Dir, nil
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return out, nil
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([.-].*)?$`)

// find reads the license files of a module and says which licenses they are.
func (m *module) find(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var licenses []string
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		m.files = append(m.files, text{e.Name(), string(content)})
		if id := identify(content); id != "" && !slices.Contains(licenses, id) {
			licenses = append(licenses, id)
		}
	}
	if len(licenses) == 0 {
		return fmt.Errorf("module %s@%s: no known license in %s, expected one of Apache-2.0, MIT, BSD, ISC or MPL-2.0", m.path, m.version, dir)
	}
	slices.Sort(licenses)
	m.license = strings.Join(licenses, " AND ")
	return nil
}

// identify returns the SPDX identifier of a license text, "" for none that is known.
func identify(content []byte) string {
	flat := string(bytes.Join(bytes.Fields(content), []byte(" ")))
	has := func(s string) bool { return strings.Contains(flat, s) }
	switch {
	case has("Apache License Version 2.0") || has("Apache License, Version 2.0, January 2004"):
		return "Apache-2.0"
	case has("Mozilla Public License Version 2.0") || has("Mozilla Public License, version 2.0"):
		return "MPL-2.0"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Redistribution and use in source and binary forms") && (has("Neither the name") || has("nor the names of")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission to use, copy, modify, and/or distribute this software") || has("Permission to use, copy, modify, and distribute this software"):
		return "ISC"
	}
	return ""
}

const pageBegin = `# Dependencies

Modules that are linked into ` + "`xdsrelay`" + ` on linux/amd64, with their licenses. The page is generated by ` + "`make licenses`" + `, and a test compares it with the program. Modules that only tests use are not in the program and not listed here. The image has the license texts in ` + "`/licenses`" + `.

| Module | Version | License | Used |
|---|---|---|---|
`

func writePage(w io.Writer, modules []module) error {
	var b strings.Builder
	b.WriteString(pageBegin)
	for _, m := range modules {
		used := "by another module"
		if m.direct {
			used = "directly"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.path, m.version, m.license, used)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeTexts(w io.Writer, modules []module) error {
	var b strings.Builder
	b.WriteString("xdsrelay includes the following modules. Their licenses and notices follow.\n")
	for _, m := range modules {
		for _, f := range m.files {
			fmt.Fprintf(&b, "\n%s\n%s %s: %s\n%s\n\n%s", strings.Repeat("=", 80), m.path, m.version, f.name, strings.Repeat("=", 80), f.content)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
