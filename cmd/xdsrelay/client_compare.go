package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"xdsrelay/relay/fielddiff"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdsget"
)

// compareServers prints how the resources of two servers differ.
func (a *app) compareServers(ctx context.Context, f *clientFlags, out *output) error {
	here, err := a.startSession(f, f.server, f.clientTLS, a.retryNote())
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := a.startSession(f, f.compare, f.compareWay, a.retryNote())
	if err != nil {
		return err
	}
	defer there.Close()
	wait, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c := xdsget.Compare(wait, here, there)
	var failed []error
	for _, side := range []struct {
		s   *xdsget.Session
		of  xdsget.Side
		way *serverTLS
	}{{here, c.Here, f.clientTLS}, {there, c.There, f.compareWay}} {
		if last := side.s.Err(); last != nil && side.of.Problem != "" {
			failed = append(failed, side.way.advice(last))
		}
	}
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	err = out.print(a.stdout, view{
		data: c, names: namesOf(c.Differences, func(d *xdsget.Difference) string { return ops.ShortName(d.URL) + "/" + d.Name }),
		table: func(w io.Writer, wide bool) { compareTable(w, c, wide) },
	})
	if err != nil {
		return err
	}
	if !c.Equal() {
		return errQuiet{errUnequal}
	}
	return nil
}

// whereSigns are the signs of diff(1).
var whereSigns = map[xdsget.Where]string{xdsget.OnlyHere: "-", xdsget.OnlyThere: "+", xdsget.Differs: "~"}

// compareTable prints a comparison for people.
func compareTable(w io.Writer, c *xdsget.Comparison, wide bool) {
	version := func(v string) string {
		if wide {
			return v
		}
		return shortVersion(v)
	}
	if len(c.Differences) > 0 {
		fmt.Fprintf(w, "-  %s\n+  %s\n\n", printable(c.Here.Server), printable(c.There.Server))
	}
	last := ""
	for _, d := range c.Differences {
		if d.URL != last {
			fmt.Fprintf(w, "%s\n", printable(ops.ShortName(d.URL)))
			last = d.URL
		}
		fmt.Fprintf(w, "  %s  %s: ", whereSigns[d.Where], printable(d.Name))
		switch d.Where {
		case xdsget.OnlyHere:
			fmt.Fprintf(w, "only %s has it, version %s\n", printable(c.Here.Server), printable(version(d.HereVersion)))
		case xdsget.OnlyThere:
			fmt.Fprintf(w, "only %s has it, version %s\n", printable(c.There.Server), printable(version(d.ThereVersion)))
		default:
			fmt.Fprintf(w, "version %s at %s, %s at %s\n", printable(version(d.HereVersion)), printable(c.Here.Server),
				printable(version(d.ThereVersion)), printable(c.There.Server))
			for _, field := range d.Fields {
				fmt.Fprintf(w, "       %s\n", printable(fieldLine(field)))
			}
			if d.Omitted > 0 {
				fmt.Fprintf(w, "       and %s\n", count(d.Omitted, "more field"))
			}
			if d.Problem != "" {
				fmt.Fprintf(w, "       %s\n", printable(d.Problem))
			}
		}
	}
	if last != "" {
		fmt.Fprintln(w)
	}
	for _, side := range []xdsget.Side{c.Here, c.There} {
		for _, url := range side.Silent {
			fmt.Fprintf(w, "%s sent no response of type %s\n", printable(side.Server), printable(ops.ShortName(url)))
		}
	}
	fmt.Fprintf(w, "%s at %s, %d at %s: %d equal, %s\n", count(c.Here.Resources, "resource"), printable(c.Here.Server), c.There.Resources,
		printable(c.There.Server), c.Same, count(len(c.Differences), "difference"))
}

// fieldLine is a field that differs in one line.
func fieldLine(f fielddiff.Field) string {
	path := f.Path
	if path == "" {
		path = "the resource"
	}
	switch f.Change {
	case fielddiff.Added:
		return fmt.Sprintf("%s: + %s", path, f.New)
	case fielddiff.Removed:
		return fmt.Sprintf("%s: - %s", path, f.Old)
	case fielddiff.Reordered:
		return path + ": the order differs"
	case fielddiff.Hidden:
		return path + ": differs, redacted"
	case fielddiff.Encoding:
		return path + ": equal, but encoded differently"
	}
	return fmt.Sprintf("%s: %s → %s", path, f.Old, f.New)
}
