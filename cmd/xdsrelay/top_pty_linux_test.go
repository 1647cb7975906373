package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xdsrelay/relay/xdstest"
)

// terminal is a pseudoterminal, and what a program has written to it.
type terminal struct {
	*os.File

	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// openTerminal returns a terminal and its end for a program.
func openTerminal(t *testing.T, columns, rows uint16) (*terminal, *os.File) {
	t.Helper()
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(ptmx.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{File: ptmx}
	term.resize(t, columns, rows)
	return term, tty
}

func (p *terminal) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}); err != nil {
		t.Fatal(err)
	}
}

// read collects the output until the program has ended.
func (p *terminal) read() {
	b := make([]byte, 4096)
	for {
		n, err := p.Read(b)
		p.mu.Lock()
		p.text.Write(b[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (p *terminal) waitFor(t *testing.T, text string) {
	t.Helper()
	xdstest.Eventually(t, fmt.Sprintf("%q on the terminal", text), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(p.text.String(), text)
	})
}

func (p *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestTopTerminal: on a real terminal, top draws, obeys keys, follows the size of the terminal, and
// leaves the terminal as it was.
func TestTopTerminal(t *testing.T) {
	p := startProgram(t, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", t.TempDir())
	term, tty := openTerminal(t, 80, 24)
	defer term.Close()
	before, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "top", "--interval", "100ms", "--admin", p.address(t, "admin"))
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		term.read()
	}()
	term.waitFor(t, "no clients")
	term.press(t, "2")
	term.waitFor(t, "keys: no client has connected yet") // after "no ", which was there: only differences are drawn
	term.resize(t, 120, 40)
	term.waitFor(t, "no keys: no client has connected yet") // with another size, everything is
	term.press(t, "q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("top ended with %v", err)
	}
	after, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, %v; it was %+v", after, err, before)
	}
	term.waitFor(t, "\x1b[?1049l")
	tty.Close()
	<-done
}
