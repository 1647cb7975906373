package amplify

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	pageName  = "../../../docs/internals/threat-model.md"
	pageBegin = "<!-- amplification: go test ./relay/hostile/amplify -run TestPage -update -->\n"
	pageEnd   = "<!-- end -->\n"
)

// line names a line of the page: the rows of a message.
type line struct{ surface, message string }

// figure is what was measured of the rows of a line: the largest of each.
type figure struct {
	nanos, memory, refused float64 // for each byte, refused for those before authorization
	locks                  bool    // any row has taken long enough for waits to be measured
	waited                 time.Duration
	lock                   string
}

// figures are those of one run.
type figures map[line]figure

// add adds what a row has cost.
func (f figures) add(r row, bytes int, c cost) {
	l := line{r.surface, r.message}
	one, size := f[l], float64(max(bytes, 1))
	one.nanos = max(one.nanos, float64(c.CPU)/size)
	if memory := float64(c.Memory) / size; r.refused {
		one.refused = max(one.refused, memory)
	} else {
		one.memory = max(one.memory, memory)
	}
	one.locks = one.locks || c.CPU > longestLock
	if c.Waited > one.waited {
		one.waited, one.lock = c.Waited, c.Lock
	}
	f[l] = one
}

// cells are the figure on the page.
func (f figure) cells() string {
	memory := fmt.Sprintf("%.2g", f.memory)
	if f.refused > 0 {
		memory += fmt.Sprintf("; before authorization %.2g", f.refused)
	}
	waited := "CPU time below 5 ms"
	switch {
	case f.waited >= 100*time.Microsecond:
		lock, _, _ := strings.Cut(f.lock, " < ")
		waited = fmt.Sprintf("%.1f ms: %#q", float64(f.waited)/float64(time.Millisecond), lock)
	case f.locks:
		waited = "below 0.1 ms"
	}
	return fmt.Sprintf(" %.2g | %s | %s |", f.nanos, memory, waited)
}

// unmeasured stands on the page for the figures of a line until a full run writes them.
const unmeasured = " – | – | – |"

// page is the table of the rows. Figures are those of this run, or those of the page as it is.
func page(rows []row, of figures, now string) string {
	fields, patterns := map[line]map[string]bool{}, map[line]map[string]bool{}
	var order []line
	for _, r := range rows {
		k := line{r.surface, r.message}
		if fields[k] == nil {
			fields[k], patterns[k] = map[string]bool{}, map[string]bool{}
			order = append(order, k)
		}
		fields[k][r.field] = true
		patterns[k][r.pattern] = true
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nThe table has %d rows, each measured with up to 1 MiB.\n", len(rows))
	b.WriteString("\n| Surface | Message | Fields | Filled with | CPU ns per byte | Memory bytes per byte | Longest wait for a lock |\n|---|---|--:|---|--:|--:|---|\n")
	for _, k := range order {
		cells := unmeasured
		if f, ok := of[k]; ok {
			cells = f.cells()
		} else if before := figuresOf(now, k); before != "" {
			cells = before
		}
		fmt.Fprintf(&b, "%s %d | %s |%s\n", k, len(fields[k]), shortened(patterns[k]), cells)
	}
	b.WriteString("\n")
	return b.String()
}

// String is how a line begins.
func (l line) String() string { return fmt.Sprintf("| %s | %s |", l.surface, l.message) }

// figuresOf are the cells with figures of a line of the page; empty if it has none.
func figuresOf(page string, l line) string {
	for text := range strings.Lines(page) {
		if rest, is := strings.CutPrefix(text, l.String()); is {
			if cells := strings.SplitN(rest, "|", 3); len(cells) == 3 && strings.Count(cells[2], "|") == 3 {
				return strings.TrimSuffix(cells[2], "\n")
			}
		}
	}
	return ""
}

// shortened lists patterns, those of texts as one.
func shortened(of map[string]bool) string {
	var all []string
	for _, p := range slices.Sorted(maps.Keys(of)) {
		if strings.HasSuffix(p, "repeated") {
			p = "repeated separators"
		}
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return strings.Join(all, "; ") // some contain a comma
}

// TestPage holds that docs/internals/threat-model.md shows all rows. Figures that are there stay.
func TestPage(t *testing.T) {
	writePage(t, nil, *update)
}

// writeFigures puts what a full run has measured on the page.
func writeFigures(t *testing.T, of figures) {
	t.Helper()
	writePage(t, of, true)
}

// writePage writes the page, or holds that it is as it would be written.
func writePage(t *testing.T, of figures, update bool) {
	t.Helper()
	var rows []row
	for _, part := range allWorlds(t) {
		rows = append(rows, part.rows(true)...)
	}
	text, err := os.ReadFile(pageName)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	table, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the marks of its table", pageName)
	}
	want := before + pageBegin + page(rows, of, table) + pageEnd + after
	if update {
		if err := os.WriteFile(pageName, []byte(want), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s does not have the rows that are measured: go test ./relay/hostile/amplify -run TestPage -update", pageName)
	}
}
