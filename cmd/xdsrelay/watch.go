package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Sequences of terminals: they take another screen and come back, and begin anew.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[2J"
)

// checkInterval is an error about the time between two pictures.
func checkInterval(every time.Duration) error {
	if every < 100*time.Millisecond {
		return usageError{fmt.Errorf("--interval: got %s, expected at least 100ms", every)}
	}
	return nil
}

// watch draws a picture now and again, until ctx ends, which is no error: who watches has
// seen enough. A screen shows the newest alone, and goes on where one cannot be drawn;
// without one (nil), one follows the other, after an empty line, and an error is the end.
func (a *app) watch(ctx context.Context, screen *os.File, every time.Duration, draw func(ctx context.Context, w io.Writer) error) error {
	if screen != nil {
		fmt.Fprint(a.stdout, enterScreen)
		defer fmt.Fprint(a.stdout, leaveScreen)
	}
	var last time.Time // when there was one; zero: never
	for {
		var b strings.Builder
		err := draw(ctx, &b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (last.IsZero() || screen == nil):
			return err
		case err != nil:
			fmt.Fprintf(a.stdout, "%s%s\n\nthe last answer came %s ago; trying again\n", clearScreen, printableLines(err.Error()), ago(time.Now(), last))
		case screen != nil:
			width, height, err := term.GetSize(int(screen.Fd()))
			if err != nil {
				width, height = 80, 24
			}
			fmt.Fprint(a.stdout, clearScreen+cut(b.String(), width, height))
		case last.IsZero():
			fmt.Fprint(a.stdout, b.String())
		default:
			fmt.Fprint(a.stdout, "\n"+b.String())
		}
		if err == nil {
			last = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// watchStatus watches what show shows on one writer, with notes for people on another.
func (a *app) watchStatus(ctx context.Context, out *output, every time.Duration, show func(ctx context.Context, w, notes io.Writer) error) error {
	if out.isData() {
		return a.watch(ctx, nil, every, func(ctx context.Context, w io.Writer) error {
			if out.form == asYAML {
				fmt.Fprintln(w, "---") // begins another document
			}
			return show(ctx, w, a.stderr)
		})
	}
	return a.watch(ctx, a.screen(), every, func(ctx context.Context, w io.Writer) error {
		fmt.Fprintf(w, "%s\n\n", time.Now().Format(time.TimeOnly))
		return show(ctx, w, w)
	})
}

// screen is the terminal that the output goes to; nil if it is none, or a simple one.
func (a *app) screen() *os.File {
	f, ok := a.stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	for _, e := range a.env {
		if e == "TERM=dumb" || e == "TERM=" {
			return nil
		}
	}
	return f
}

// cut makes a text fit into a terminal.
func cut(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		if r := []rune(line); len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	return strings.Join(lines, "\n")
}
