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

// Control sequences of terminals: they switch to another screen, switch back, and clear it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[2J"
)

// watch draws again and again until ctx ends, which is not an error. A screen shows the newest drawing
// only, and watch continues after an error. Without a screen (nil), drawings follow each other, separated
// by an empty line, and watch returns an error.
func (a *app) watch(ctx context.Context, screen *os.File, every time.Duration, draw func(ctx context.Context, w io.Writer) error) error {
	if screen != nil {
		fmt.Fprint(a.stdout, enterScreen)
		defer fmt.Fprint(a.stdout, leaveScreen)
	}
	var last time.Time // of a drawing; zero for none yet
	for {
		var b strings.Builder
		err := draw(ctx, &b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (last.IsZero() || screen == nil):
			return err
		case err != nil:
			fmt.Fprintf(a.stdout, "%s%s\n\nlast answer %s ago; retrying\n", clearScreen, printableLines(err.Error()), ago(time.Now(), last))
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

// watchOutput watches the output of show. Its second writer is for notes.
func (a *app) watchOutput(ctx context.Context, out *output, every time.Duration, show func(ctx context.Context, w, notes io.Writer) error) error {
	if !out.isTable() {
		return a.watch(ctx, nil, every, func(ctx context.Context, w io.Writer) error {
			if out.form == asYAML {
				fmt.Fprintln(w, "---") // a new document
			}
			return show(ctx, w, a.stderr)
		})
	}
	return a.watch(ctx, a.screen(), every, func(ctx context.Context, w io.Writer) error {
		fmt.Fprintf(w, "%s\n\n", time.Now().Format(time.TimeOnly))
		return show(ctx, w, w)
	})
}

// screen returns the terminal of the output; nil if it is not a terminal or a simple one.
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

// cut truncates a text to the size of a terminal.
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
