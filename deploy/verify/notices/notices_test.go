package main

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
)

const (
	// program is what `make build` has built.
	program = "../../../bin/xdsrelay"
	page    = "../../../docs/internals/dependencies.md"
)

// TestPage: the page lists each module that is linked into the program with a license that permits
// passing the program on, and the texts of all of them are there.
func TestPage(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the page lists the modules of the program for linux/amd64")
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	modules, err := read(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	var want, texts bytes.Buffer
	if err := writePage(&want, modules); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s differs from the program: run `make licenses`", page)
	}
	if err := writeTexts(&texts, modules); err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if !strings.Contains(texts.String(), m.path+" "+m.version+": ") {
			t.Errorf("the license text of %s is missing", m.path)
		}
	}
}

// TestIdentify: texts of licenses are recognized, others are not.
func TestIdentify(t *testing.T) {
	for content, want := range map[string]string{
		"Apache License\n  Version 2.0, January 2004":                             "Apache-2.0",
		"Mozilla Public License Version 2.0":                                      "MPL-2.0",
		"Permission is hereby granted, free of\ncharge, to any person":            "MIT",
		"Redistribution and use in source and binary forms … Neither the name of": "BSD-3-Clause",
		"Redistribution and use in source and binary forms":                       "BSD-2-Clause",
		"Permission to use, copy, modify, and/or distribute this software":        "ISC",
		"GNU General Public License":                                              "",
		"":                                                                        "",
	} {
		if got := identify([]byte(content)); got != want {
			t.Errorf("%q is %q, expected %q", content, got, want)
		}
	}
}
