package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/fleet"
)

// newTopCmd watches a tier.
func (a *app) newTopCmd() *cobra.Command {
	var once bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the keys and clients of a running tier",
		Long: "Watch a tier: how its clients stand, which keys are updated most, and which clients\n" +
			"have not what they should have. It goes on until it is interrupted (Ctrl-C); where\n" +
			"the output is no terminal, one picture follows the other.",
		Example: "  xdsrelay top\n" +
			"  xdsrelay top --once",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "print one picture, of one interval, and end")
	cmd.Flags().DurationVar(&every, "interval", 2*time.Second, "the time between two pictures")
	cmd.RunE = a.action(func(cmd *cobra.Command) error {
		if every < 100*time.Millisecond {
			return usageError{fmt.Errorf("--interval: got %s, expected at least 100ms", every)}
		}
		return a.top(cmd.Context(), node, every, once)
	})
	return cmd
}

// picture is what top shows, as of a time.
type picture struct {
	at      time.Time
	members admin.Members
	summary fleet.Summary
	keys    admin.Keys
	late    []fleet.Client
}

// mostLate is how many clients are listed that have not what they should have.
const mostLate = "50"

// look takes a picture.
func (r *remote) look(ctx context.Context) (p picture, err error) {
	p.at = time.Now()
	var page fleet.Page
	for _, one := range []struct {
		path  string
		query url.Values
		into  any
	}{
		{"/tier/members", nil, &p.members},
		{"/api/v1/summary", nil, &p.summary},
		{"/api/v1/keys", nil, &p.keys},
		{"/api/v1/clients", url.Values{"state": {"nacked,stale,unknown"}, "limit": {mostLate}}, &page},
	} {
		if _, err = r.get(ctx, one.path, one.query, one.into); err != nil {
			return p, err
		}
	}
	p.late = page.Clients
	return p, nil
}

// Sequences of terminals: they take another screen and come back, and begin anew.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[2J"
)

func (a *app) top(ctx context.Context, node *remote, every time.Duration, once bool) error {
	last, err := node.look(ctx)
	if err != nil {
		return err
	}
	screen := a.screen()
	if once {
		screen = nil
	}
	if screen != nil {
		fmt.Fprint(a.stdout, enterScreen)
		defer fmt.Fprint(a.stdout, leaveScreen)
	}
	for begun := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil // who watches has seen enough
		case <-time.After(every):
		}
		now, err := node.look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (once || screen == nil):
			return err
		case err != nil:
			fmt.Fprintf(a.stdout, "%s%s\n\nthe last answer came %s ago; trying again\n", clearScreen, err, ago(time.Now(), last.at))
			continue
		}
		var b strings.Builder
		drawTop(&b, last, now)
		switch {
		case screen != nil:
			width, height, err := term.GetSize(int(screen.Fd()))
			if err != nil {
				width, height = 80, 24
			}
			fmt.Fprint(a.stdout, clearScreen+cut(b.String(), width, height))
		case !once && time.Since(begun) > 2*every:
			fmt.Fprint(a.stdout, "\n"+b.String())
		default:
			fmt.Fprint(a.stdout, b.String())
		}
		if last = now; once {
			return nil
		}
	}
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

// drawTop writes a picture; rates are those since the last one.
func drawTop(w io.Writer, last, now picture) {
	s := now.summary
	fmt.Fprintf(w, "%s  %s on %s, %s%s\n", now.at.Format(time.TimeOnly), count(s.Clients, "client"), count(len(s.Nodes), "node"), count(len(now.keys.Keys), "key"), statesLine(s.States))
	silentLines(w, s.Silent)
	fmt.Fprintln(w)
	columns(w, nodeRows(now))
	if len(now.keys.Keys) > 0 {
		fmt.Fprintln(w)
		columns(w, keyRows(last, now))
	}
	if len(now.late) > 0 {
		fmt.Fprintln(w)
		clientTable(w, now.late, false, now.at)
		rejections(w, now.late, now.at)
	}
}
