package secure_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/events"
	"xdsrelay/relay/secure"
)

// TestWatch: a file is read again when it has changed, and only then.
func TestWatch(t *testing.T) {
	path, reads := tempFile(t, "one"), 0
	age(t, path, time.Hour)
	w, err := secure.Watch([]string{path}, new(logs).logger(), func(c [][]byte) (string, error) {
		reads++
		return string(c[0]), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(value string, n int) {
		t.Helper()
		if got := w.Get(); got != value || reads != n {
			t.Errorf("got %q after %d reads, expected %q after %d", got, reads, value, n)
		}
	}
	expect("one", 1)
	expect("one", 1)
	write(t, path, "two")
	age(t, path, time.Hour) // the same size, and the same time as before
	expect("two", 2)
	expect("two", 2)

	// In place, with the same size and maybe the same time: it changed just now,
	// so it is read each time.
	if err := os.WriteFile(path, []byte("six"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("six", 3)
	if err := os.WriteFile(path, []byte("ten"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("ten", 4)
	expect("ten", 4) // read again, and not parsed: nothing is made again of a file that was just written
}

// TestWatchFailure: what cannot be read leaves the old value, is logged once, and
// is tried again.
func TestWatchFailure(t *testing.T) {
	path, log := tempFile(t, "good"), new(logs)
	parse := func(c [][]byte) (string, error) {
		if s := string(c[0]); s != "bad" {
			return s, nil
		}
		return "", errors.New(path + " is bad")
	}
	w, err := secure.Watch([]string{path}, log.logger(), parse)
	if err != nil {
		t.Fatal(err)
	}
	for _, break_ := range []func(){
		func() { write(t, path, "bad") },
		func() { write(t, path, "bad") }, // another file, and the same error
		func() { _ = os.Remove(path) },
		func() { write(t, path, strings.Repeat("x", 2<<20)) },
	} {
		break_()
		for range 3 {
			if got := w.Get(); got != "good" {
				t.Errorf("got %q, expected what was good before", got)
			}
		}
	}
	if n := log.lines("level=ERROR"); n != 3 {
		t.Errorf("%d errors were logged, expected one for each kind:\n%s", n, log)
	}
	write(t, path, "better")
	if got := w.Get(); got != "better" {
		t.Errorf("got %q, expected the new content", got)
	}
	if bad, good := log.lines("event="+string(events.FilesUnusable)), log.lines("event="+string(events.FilesUsable)); bad != 3 || good != 1 {
		t.Errorf("%d and %d events:\n%s", bad, good, log)
	}
	if n := log.lines("are usable again"); n != 1 {
		t.Errorf("%d lines say that it is good again, expected one:\n%s", n, log)
	}

	write(t, path, "bad")
	if _, err := secure.Watch([]string{path}, log.logger(), parse); err == nil {
		t.Error("a bad file was taken at the start")
	}
	_, err = secure.Watch([]string{path + "x"}, log.logger(), parse)
	if err == nil || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("got %v, expected an error that names the file", err)
	}
}

// age gives a file a modification time in the past.
func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(-by)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}
