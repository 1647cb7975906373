package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// statusLine shows what is being done: a line for each thing that is done, and,
// on a terminal, one below them that changes.
type statusLine struct {
	out   io.Writer
	width int // of the terminal; 0 if it is none

	mu    sync.Mutex
	shown bool // guarded by mu: the changing line is there
}

func newStatusLine(out io.Writer) *statusLine {
	s := &statusLine{out: out}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			s.width = width
		}
	}
	return s
}

// logf writes a line that stays.
func (s *statusLine) logf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// status writes the line that changes.
func (s *statusLine) status(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.width < 2 {
		return
	}
	if runes := []rune(line); len(runes) >= s.width {
		line = string(runes[:s.width-2]) + "…"
	}
	s.clearLocked()
	fmt.Fprint(s.out, line)
	s.shown = true
}

// clear removes the line that changes.
func (s *statusLine) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

func (s *statusLine) clearLocked() {
	if s.shown {
		fmt.Fprint(s.out, "\r\x1b[K")
		s.shown = false
	}
}
