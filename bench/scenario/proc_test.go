package scenario

import (
	"math"
	"os"
	"strings"
	"testing"

	"xdsrelay/bench/report"
)

// TestParseStat holds what is read of /proc/PID/stat, whatever a program is
// called.
func TestParseStat(t *testing.T) {
	rest := " S 1 4242 4242 0 -1 4194560 9000 0 1 0 1234 567 8 9 20 0 12 0 3301 1270341632 4321 18446744073709551615"
	for _, name := range []string{"xdsrelay", "a b", "a) S 1 (b", "("} {
		cpu, system, err := parseStat("4242 (" + name + ")" + rest)
		if err != nil || cpu != 18.01 || system != 5.67 {
			t.Errorf("%q: %g and %g s (%v), expected 12.34 and 5.67", name, cpu, system, err)
		}
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", "1 (x)" + strings.Replace(rest, "1234", "-1", 1), "1 (x)" + strings.Replace(rest, "567", "x", 1)} {
		if cpu, system, err := parseStat(bad); err == nil {
			t.Errorf("%q was read as %g and %g s", bad, cpu, system)
		}
	}
}

// TestParseStatus holds what is read of /proc/PID/status.
func TestParseStatus(t *testing.T) {
	text := "Name:\tx\nVmPeak:\t  999 kB\nVmHWM:\t  300 kB\nVmRSS:\t  200 kB\nRssAnon:\t  100 kB\n"
	rss, peak, err := parseStatus(text)
	if err != nil || rss != 200<<10 || peak != 300<<10 {
		t.Errorf("%d and %d bytes (%v), expected 200 and 300 KiB", rss, peak, err)
	}
	if rss, peak, err := parseStatus("Name:\tzombie\n"); err != nil || rss != 0 || peak != 0 {
		t.Errorf("a process that is ending has %d and %d bytes (%v)", rss, peak, err)
	}
	for _, bad := range []string{"VmRSS: 12\n", "VmHWM: x kB\n"} {
		if rss, _, err := parseStatus(bad); err == nil {
			t.Errorf("%q was read as %d bytes", bad, rss)
		}
	}
}

// TestUseOf holds that this process used something, and that one that is not
// there is an error.
func TestUseOf(t *testing.T) {
	var before, use report.Use
	var err error
	for use.CPU-before.CPU < 0.001 && err == nil { // it works until it has used a millisecond
		if use, err = useOf(os.Getpid()); before.CPU == 0 {
			before = use
		}
	}
	if err != nil || use.RSS == 0 || use.Peak < use.RSS {
		t.Errorf("this process: %+v (%v)", use, err)
	}
	if _, err := useOf(1 << 30); err == nil || !strings.Contains(err.Error(), "use of process 1073741824") {
		t.Errorf("error %v of a process that is not there", err)
	}
	if got := since(plus(use, report.Use{CPU: 1, RSS: 5}), use); math.Abs(got.CPU-1) > 1e-9 || got.System != 0 || got.RSS != use.RSS+5 {
		t.Errorf("a second and 5 bytes more are %+v", got)
	}
}
