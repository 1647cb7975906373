package hostile

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// out is where results are kept.
var out = flag.String("hostile.out", "", "a folder for a page of results")

// result is what an attack has come to.
type result struct {
	attack        string
	took          time.Duration
	recovered     time.Duration  // until the node was as before
	changes       int64          // that reached all good clients meanwhile
	refusals      map[string]int // counted by the node, by what it says they were
	before, after footprint
}

// refusal finds the counters of rejections, and their reasons.
var refusal = regexp.MustCompile(`(?m)^xdsrelay_rejections_total\{reason="([^"]*)",[^}]*\} (\S+)$`)

// refusalsIn returns the rejections of a page of metrics, by reason.
func refusalsIn(metrics string) map[string]int {
	all := make(map[string]int)
	for _, m := range refusal.FindAllStringSubmatch(metrics, -1) {
		if n, err := strconv.ParseFloat(m[2], 64); err == nil {
			all[m[1]] += int(n)
		}
	}
	return all
}

// since is what was counted in between.
func since(before, after map[string]int) map[string]int {
	all := maps.Clone(after)
	for why, n := range before {
		all[why] -= n
	}
	maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
	return all
}

func (r result) row() string {
	var told []string
	for _, why := range slices.Sorted(maps.Keys(r.refusals)) {
		told = append(told, fmt.Sprintf("%s %d", why, r.refusals[why]))
	}
	if told == nil {
		told = []string{"–"}
	}
	memory := func(f footprint) string {
		if f.rss > 0 {
			return fmt.Sprintf("%.0f", float64(f.rss)/(1<<20))
		}
		return fmt.Sprintf("%.0f live", float64(f.heap)/(1<<20))
	}
	return fmt.Sprintf("| %s | %s | %.1f | %d | %.1f | %s | %s | %d | %d |\n", r.attack, strings.Join(told, ", "), r.took.Seconds(), r.changes,
		r.recovered.Seconds(), memory(r.before), memory(r.after), r.before.goroutines, r.after.goroutines)
}

const (
	pageBegin = `# Attacks on a node, and what became of them

Written by ` + "`make hostile`" + `. A node in a process of its own is attacked, with 200 good clients on it, while its origin changes everything again and again. *Changes* is how many of these reached all good clients during the attack and right after; none of their streams ended, and nothing of another key was delivered, or the test fails. *Refused* is what the node counted, by limit, code, rule or reason: what HTTP/2 or TLS refuse by themselves is not in it, but held by the tests, each of which looks at what the attacker is told. Memory is resident MiB, of a node that has given the system back what it does not use; *before* is before the first attack on it.

`
	tableHead = "| Attack | Refused | Took s | Changes | Recovered s | Memory before | after | Goroutines before | after |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n"
)

// report puts the results of a test into the page, in the place of earlier ones.
func (s *stage) report(t *testing.T) {
	t.Helper()
	if *out == "" || len(s.results) == 0 || t.Failed() {
		return
	}
	name := filepath.Join(*out, "hostile-"+time.Now().UTC().Format(time.DateOnly)+".md")
	text, err := os.ReadFile(name)
	if err != nil {
		text = []byte(pageBegin)
	}
	var b strings.Builder
	b.WriteString("## " + t.Name() + "\n\n" + tableHead)
	for _, r := range s.results {
		b.WriteString(r.row())
	}
	parts := strings.Split(string(text), "\n## ")
	mine := strings.TrimPrefix(b.String(), "## ")
	i := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, t.Name()+"\n") })
	if i < 0 {
		parts = append(parts, mine)
	} else {
		parts[i] = mine
	}
	for i, p := range parts {
		parts[i] = strings.TrimRight(p, "\n") + "\n"
	}
	if err := os.WriteFile(name, []byte(strings.Join(parts, "\n## ")), 0o644); err != nil { //nolint:gosec // a page for everybody
		t.Error(err)
	}
}
