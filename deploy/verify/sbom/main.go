// Command sbom lists what a Go program is made of, as a software bill of materials in
// the JSON form of CycloneDX. It reads what the Go linker has noted in the program, so
// the list holds what is in it, and not what might be.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "the program's `VERSION`; what the linker has noted unless told otherwise")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: sbom [-version VERSION] PROGRAM")
		os.Exit(2)
	}
	if err := write(os.Stdout, flag.Arg(0), *version); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

// write writes the list for a program.
func write(w io.Writer, program, version string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if version != "" {
		info.Main.Version = version
	}
	list, err := describe(info)
	if err != nil {
		return err
	}
	enc := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	enc.SetPretty(true)
	return enc.EncodeVersion(list, cdx.SpecVersion1_6)
}

// describe lists the modules, and the standard library as one of them. All depend on
// the program alone: which of them needs which is not noted in it.
func describe(info *debug.BuildInfo) (*cdx.BOM, error) {
	if info.Main.Path == "" {
		return nil, errors.New("the program was not built from a module")
	}
	list := cdx.NewBOM()
	main := component(&info.Main, cdx.ComponentTypeApplication)
	var settings []cdx.Property
	for _, s := range info.Settings {
		settings = append(settings, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	main.Properties = &settings
	list.Metadata = &cdx.Metadata{Component: &main}

	all := []cdx.Component{component(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")}, cdx.ComponentTypeLibrary)}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, component(m, cdx.ComponentTypeLibrary))
	}
	var names []string
	for i := range all {
		c := &all[i]
		if m := find(info, c.Name); m != nil && m.Sum != "" {
			sum, err := hexSum(m.Sum)
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", c.Name, err)
			}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		}
		names = append(names, c.BOMRef)
	}
	list.Components = &all
	list.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &names}}
	return list, nil
}

// find returns the module of a name that was linked.
func find(info *debug.BuildInfo, path string) *debug.Module {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Path == path {
			return m
		}
	}
	return nil
}

func component(m *debug.Module, kind cdx.ComponentType) cdx.Component {
	purl := "pkg:golang/" + (&url.URL{Path: m.Path}).EscapedPath()
	if m.Version != "" {
		purl += "@" + url.QueryEscape(m.Version)
	}
	return cdx.Component{BOMRef: purl, Type: kind, Name: m.Path, Version: m.Version, PackageURL: purl}
}

// hexSum writes a checksum of go.sum as CycloneDX wants it: "h1:" is SHA-256 in base64.
func hexSum(sum string) (string, error) {
	text, ok := strings.CutPrefix(sum, "h1:")
	raw, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(raw) != 32 {
		return "", fmt.Errorf("checksum %q, expected h1: and 32 bytes in base64", sum)
	}
	return hex.EncodeToString(raw), nil
}
