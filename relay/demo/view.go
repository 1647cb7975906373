package demo

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// view shows a demo while it runs: on a screen, or line by line.
type view interface {
	// start comes before, and stop after, any number of shows; flush shows what
	// is left once the demo has stopped.
	start()
	show()
	stop()
	flush()
}

// Terminal reports whether out is a terminal that a live screen can be drawn
// on, and the environment, as os.Environ gives it, does not ask for plain lines.
func Terminal(out io.Writer, env []string) bool {
	f, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false
	}
	return !slices.ContainsFunc(env, func(v string) bool {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "NO_COLOR", "CI":
			return value != ""
		case "TERM":
			return value == "dumb"
		}
		return false
	})
}

// plain shows a demo as lines, one for each change.
type plain struct {
	d    *demo
	said bool // that the clients have everything
}

func newPlain(d *demo) view { return &plain{d: d} }

func (p *plain) start() {
	d := p.d
	fmt.Fprintf(d.cfg.Out, "xdsrelay demo: %d clients of %d keys (%s)\n", len(d.fleet.clients), len(d.fleet.keys), strings.Join(d.fleet.keys, ", "))
	fmt.Fprintf(d.cfg.Out, "  relay      %s\n  admin      http://%s\n  directory  %s%s\n", d.node.addr, d.node.admin, d.files.root, p.fate())
	fmt.Fprintf(d.cfg.Out, "Try: edit a file there, or curl http://%s/debug/streams\n", d.node.admin)
	fmt.Fprintf(d.cfg.Out, "Times are p50 p99 max. One client in %d is slow: it needs %s for each response.\n", slowShare, brief(p.d.cfg.Slow))
}

// fate says what becomes of the directory.
func (p *plain) fate() string {
	if p.d.edits == nil {
		return " (only read)"
	}
	return " (until the end)"
}

func (p *plain) stop() {}

func (p *plain) show() { p.tell(false) }

func (p *plain) flush() { p.tell(true) }

func (p *plain) tell(all bool) {
	t := p.d.track
	if !t.syncedAt.IsZero() && !p.said {
		p.said = true
		fmt.Fprintf(p.d.cfg.Out, "%s  all clients except the slow ones have all resources, %s after the start\n",
			t.syncedAt.Format(time.TimeOnly), brief(t.syncedAt.Sub(p.d.began)))
	}
	for _, problem := range t.problems {
		fmt.Fprintf(p.d.cfg.Out, "%s  ! %s\n", time.Now().Format(time.TimeOnly), problem)
	}
	t.problems = nil
	for _, e := range t.events {
		if !e.told && (all || e.settled() || time.Since(e.wrote) > 10*time.Second) {
			e.told = true
			fmt.Fprintln(p.d.cfg.Out, plainLine(e))
		}
	}
}

// plainLine is a change in one line.
func plainLine(e *event) string {
	r := e.reach()
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %-20s %-22s %-14s", e.wrote.Format(time.TimeOnly), e.file, e.what(), strings.Join(e.keys, ","))
	fmt.Fprintf(&b, " reached %d/%d", r.reached, r.wanted)
	fmt.Fprintf(&b, "  file→client %s  relay→client %s", r.fromFile, r.fromRelay)
	if r.slowWanted > 0 {
		fmt.Fprintf(&b, "  slow %d/%d", r.slowReached, r.slowWanted)
		if r.slow.known {
			fmt.Fprintf(&b, " in %s", brief(r.slow.max))
		}
	}
	if r.skipped > 0 {
		fmt.Fprintf(&b, "  %d got a newer version instead", r.skipped)
	}
	if r.rejected > 0 {
		fmt.Fprintf(&b, "  %d rejected it", r.rejected)
	}
	if n := len(e.waiting) - r.rejected; n > 0 {
		fmt.Fprintf(&b, "  %d waiting", n)
	}
	return b.String()
}
