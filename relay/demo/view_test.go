package demo

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var control = regexp.MustCompile(`\x1b\[[?0-9;]*[a-zA-Z]`)

// TestFrame holds that a frame fits any screen, and shows what there is.
func TestFrame(t *testing.T) {
	d, out := started(t, true)
	s := d.view.(*screen)
	s.start()
	edit(t, d.files.root+"/eds.yaml", "8001", "8002")
	d.await(t, "the change", func() bool { return len(d.track.events) == 1 && d.track.inStep() })
	d.track.problems = append(d.track.problems, "evil \x1b[31m name\n")
	for _, width := range []int{1, 20, 80, 120, 200} {
		for _, height := range []int{1, 10, 24, 60} {
			frame := control.ReplaceAllString(s.frame(width, height), "")
			lines := strings.Split(frame, "\r\n")
			if len(lines) > height {
				t.Errorf("%d × %d: %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if n := utf8.RuneCountInString(l); n > width {
					t.Errorf("%d × %d: a line of %d: %q", width, height, n, l)
				}
			}
			if strings.ContainsAny(strings.ReplaceAll(frame, "\r\n", ""), "\x1b\n") {
				t.Errorf("%d × %d: control characters are left: %q", width, height, frame)
			}
		}
	}
	wide := control.ReplaceAllString(s.frame(140, 40), "")
	for _, want := range []string{"endpoints website", "api edge shop", "30 clients", " edge ", "! evil", d.node.addr} {
		if !strings.Contains(wide, want) {
			t.Errorf("the screen lacks %q:\n%s", want, wide)
		}
	}
	s.show()
	s.stop()
	if text := out.String(); !strings.HasPrefix(text, enterScreen) || !strings.Contains(text, leaveScreen) {
		t.Errorf("the terminal is not left as it was: %q", text)
	}
}

// TestTerminal holds when no screen is drawn.
func TestTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if Terminal(&bytes.Buffer{}, nil) || Terminal(null, nil) {
		t.Error("what is no terminal is taken for one")
	}
}

// TestWords holds how numbers are written.
func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		brief(120 * time.Microsecond): "0.12ms", brief(1 * time.Millisecond): "1.0ms", brief(15 * time.Millisecond): "15ms",
		brief(1500 * time.Millisecond): "1.5s",
		size(7):                        "7 B", size(4600): "4.6 KB", size(462_000): "462 KB", size(uint64(2_000_000)): "2.0 MB",
		count(7): "7", count(1234): "1,234", count(uint64(1234567)): "1,234,567",
		bar(1, 2, 4): "██░░", bar(0, 0, 2): "  ", cut("abcdef", 4): "abc…",
	} {
		if got != want {
			t.Errorf("%q, expected %q", got, want)
		}
	}
	var d []time.Duration
	for i := range 200 {
		d = append(d, time.Duration(200-i)*time.Millisecond)
	}
	if s := spreadOf(d); s.String() != "100ms 198ms 200ms" {
		t.Errorf("the spread is %v", s)
	}
}

// TestReadTotals reads metrics as the admin port gives them.
func TestReadTotals(t *testing.T) {
	got, err := readTotals(strings.NewReader(`# HELP xdsrelay_downstream_responses_total Responses sent to clients.
# TYPE xdsrelay_downstream_responses_total counter
xdsrelay_downstream_responses_total{type="a b} c",variant="delta"} 3
xdsrelay_downstream_responses_total{type="b",variant="sotw"} 4
xdsrelay_downstream_sent_bytes_total{type="b"} 1.5e+03
xdsrelay_downstream_bodies_built_total 2
xdsrelay_downstream_acknowledgments_total{outcome="ack",type="b"} 6
xdsrelay_downstream_acknowledgments_total{outcome="nack",type="b"} 1
xdsrelay_downstream_acknowledgments_total{outcome="stale",type="b"} 9
go_goroutines 12
`))
	if want := (totals{responses: 7, bytes: 1500, built: 2, acks: 6, nacks: 1}); err != nil || got != want {
		t.Errorf("read %+v, %v, expected %+v", got, err, want)
	}
}
