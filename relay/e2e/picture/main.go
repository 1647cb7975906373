// Command picture draws the trace of an update in a file that an OpenTelemetry Collector
// has written, as SVG on standard output: of all that are in it, the one that shows most.
package main

import (
	"errors"
	"fmt"
	"os"

	"xdsrelay/relay/e2e/record"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("expected one argument, the collector's file")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	spans, _, err := record.Read(file)
	if err != nil {
		return err
	}
	root, ok := record.Largest(spans)
	if !ok {
		return fmt.Errorf("%s holds no trace of an update", args[0])
	}
	return record.Picture(os.Stdout, spans, root)
}
