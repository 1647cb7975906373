package demo

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"
)

// Control sequences that every terminal of today knows.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // the alternate screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	beginFrame  = "\x1b[?2026h\x1b[H" // nothing is drawn until the frame is complete
	endFrame    = "\x1b[J\x1b[?2026l"
	endLine     = "\x1b[K"
	plainStyle  = "\x1b[0m"
	bold        = "\x1b[1m"
	dim         = "\x1b[2m"
	red         = "\x1b[31m"
	green       = "\x1b[32m"
	yellow      = "\x1b[33m"
	cyan        = "\x1b[36m"
)

// frameTime is the time from one frame to the next.
const frameTime = 150 * time.Millisecond

// screen shows a demo on a screen that is renewed in place.
type screen struct {
	*plain // for the end, when the screen is gone
	d      *demo
	last   time.Time
	notes  []string
}

func newScreen(d *demo) view { return &screen{plain: &plain{d: d, said: true}, d: d} }

func (s *screen) start() { fmt.Fprint(s.d.cfg.Out, enterScreen) }

// stop leaves the screen at once, so that whatever comes next, a second
// interrupt included, finds the terminal as it was.
func (s *screen) stop() {
	fmt.Fprint(s.d.cfg.Out, leaveScreen)
	fmt.Fprintln(s.d.cfg.Out, "xdsrelay demo: waiting for the clients to have the last state …")
	for _, e := range s.d.track.events {
		e.told = e.settled() // it was seen
	}
}

func (s *screen) show() {
	if time.Since(s.last) < frameTime {
		return
	}
	s.last = time.Now()
	width, height := 100, 30
	if f, ok := s.d.cfg.Out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			width, height = w, h
		}
	}
	fmt.Fprint(s.d.cfg.Out, s.frame(width, height))
}

// frame draws everything there is to see.
func (s *screen) frame(width, height int) string {
	s.notes = append(s.notes, s.d.track.problems...)
	s.d.track.problems = nil
	s.notes = s.notes[max(0, len(s.notes)-3):]

	top := append(s.head(), s.fleetLines()...)
	bottom := append(s.totals(), s.foot()...)
	room := height - len(top) - len(bottom)
	lines := slices.Concat(top, s.changes(width, max(room, 1)))
	for len(lines)+len(bottom) < height {
		lines = append(lines, line{})
	}
	lines = append(lines, bottom...)
	var b bytes.Buffer
	b.WriteString(beginFrame)
	for i, l := range lines[:min(len(lines), height)] {
		if i > 0 {
			b.WriteString("\r\n")
		}
		l.draw(&b, width)
		b.WriteString(endLine)
	}
	b.WriteString(endFrame)
	return b.String()
}

// line is a line of the screen: texts and how they look.
type line []span

type span struct{ style, text string }

func (l line) add(style, format string, args ...any) line {
	return append(l, span{style, fmt.Sprintf(format, args...)})
}

// draw writes a line, cut off at width. All that is shown is one cell wide.
func (l line) draw(b *bytes.Buffer, width int) {
	for _, s := range l {
		text := []rune(printable(s.text))
		if len(text) > width {
			text = text[:width]
		}
		width -= len(text)
		if s.style != "" {
			b.WriteString(s.style + string(text) + plainStyle)
		} else {
			b.WriteString(string(text))
		}
	}
}

// printable keeps control characters in names and errors from the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// bar shows a share as a bar.
func bar(part, whole, width int) string {
	if whole == 0 {
		return strings.Repeat(" ", width)
	}
	full := part * width / whole
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}
