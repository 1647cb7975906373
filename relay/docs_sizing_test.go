package relay_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSizingAddsUp: the numbers of docs/sizing.md are what the formulas beside them give,
// to two digits.
func TestSizingAddsUp(t *testing.T) {
	text, err := os.ReadFile("../docs/sizing.md")
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
	memory := regexp.MustCompile(`\| (\d+) GiB \| ([\d,]+) \| \(2/3 × (\d+) GiB − (\d+) MiB\) / (\d+) KiB.*`)
	for _, m := range memory.FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[3] {
			t.Errorf("%s: two limits", m[0])
		}
		same(m[0], number(m[2]), (number(m[3])*1024*2/3-number(m[4]))*1024/number(m[5]))
	}
	if rows < 7 {
		t.Errorf("%d rows were found: has the form changed?", rows)
	}
}
