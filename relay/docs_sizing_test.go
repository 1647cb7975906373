package relay_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"xdsrelay/fanout"
	"xdsrelay/fanout/conn"
	"xdsrelay/relay/config"
)

// TestSizingAddsUp: the numbers of docs/operate/sizing.md are what the formulas in their rows give,
// to two digits, and a node with 1 GiB has the memory for the write buffers of its clients.
func TestSizingAddsUp(t *testing.T) {
	text, err := os.ReadFile("../docs/operate/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 {
		t.Helper()
		v, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	rows := 0
	same := func(row string, got, want float64) {
		t.Helper()
		if rows++; got < 0.97*want || got > 1.03*want {
			t.Errorf("%s\nit is %.0f", row, want)
		}
	}
	cores := regexp.MustCompile(`\| [\d.]+ \| ([\d,]+) \| ([\d.]+) s / \(([\d.]+) × (\d+) µs\).*`)
	for _, m := range cores.FindAllStringSubmatch(string(text), -1) {
		same(m[0], number(m[1]), number(m[2])/(number(m[3])*number(m[4])*1e-6))
	}
	memory := regexp.MustCompile(`\| (\d+) GiB \| ([\d,]+) \| [\d,]+ \| \(2/3 × (\d+) GiB − (\d+) MiB\) / (\d+) KiB.*`)
	for _, m := range memory.FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[3] {
			t.Errorf("%s: two limits", m[0])
		}
		same(m[0], number(m[2]), (number(m[3])*1024*2/3-number(m[4]))*1024/number(m[5]))
		// On a busy node all connections may have both write buffers at once. Where shared
		// bodies are a large part of the memory, there has to be room for that.
		all := number(m[2]) * (number(m[5])*1024 + fanout.WriteBuffer + conn.WriteBatch)
		if most := config.Default().Limits.MaxMemoryPercent; m[1] == "1" && all > float64(most)/100*(1<<30) {
			t.Errorf("%s\nwith a write buffer for each client that is %.0f MiB, expected at most %d %%", m[0], all/(1<<20), most)
		}
	}
	if rows < 7 {
		t.Errorf("%d rows were found: has the form changed?", rows)
	}
}
