package main

import (
	"fmt"
	"io"

	"xdsrelay/relay/fielddiff"
)

// printFields prints the differences of a resource.
func printFields(w io.Writer, indent string, d *fielddiff.Diff) {
	for _, f := range d.Fields {
		path := printable(f.Path)
		if path == "" {
			path = "(resource)"
		}
		switch f.Change {
		case fielddiff.Added:
			fmt.Fprintf(w, "%s+ %s: %s\n", indent, path, printable(f.New))
		case fielddiff.Removed:
			fmt.Fprintf(w, "%s- %s: %s\n", indent, path, printable(f.Old))
		case fielddiff.Changed:
			fmt.Fprintf(w, "%s~ %s: %s -> %s\n", indent, path, printable(f.Old), printable(f.New))
		default:
			fmt.Fprintf(w, "%s~ %s: %s\n", indent, path, fieldWords[f.Change])
		}
	}
	if d.Omitted > 0 {
		fmt.Fprintf(w, "%sand %d more\n", indent, d.Omitted)
	}
	if d.Problem != "" {
		fmt.Fprintf(w, "%s%s\n", indent, printable(d.Problem))
	}
}

// fieldWords are for differences without values.
var fieldWords = map[fielddiff.Change]string{
	fielddiff.Reordered: "same elements in another order",
	fielddiff.Hidden:    "differs, and is not shown",
	fielddiff.Encoding:  "equal, and encoded differently",
}
