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

// What is held of each row.
const (
	// growth is by how much the cost of a byte may be higher in a large message than in a
	// small one. Linear is 1; quadratic is as much as the sizes differ.
	growth = 3
	// spareCPU and spareMemory are what a message may cost whatever its size.
	spareCPU    = 15 * time.Millisecond
	spareMemory = 1 << 20
	// beforeAuthorize is the memory for each byte of a request that is refused.
	beforeAuthorize = 4
	// fewPerByte is the memory for each byte that is never too much: it is so little that
	// what a small message takes is not measured reliably.
	fewPerByte = 8
	// longestLock is how long a lock may be held.
	longestLock = 5 * time.Millisecond
	// tries is how often a cost is measured that exceeds its bound.
	tries = 5
)

// sizes are those that a row is measured in.
func sizes() (small, large int) {
	if *full {
		return 64 << 10, 4 << 20
	}
	return 16 << 10, 256 << 10
}

// row is a way to send a node something.
type row struct {
	surface string // such as a port
	message string // what is sent there
	field   string // the path of the field that is filled
	pattern string
	refused bool // before the client is authorized
	// send sends about so many bytes and waits until they are refused or served. It
	// returns how many there were.
	send func(t *testing.T, size int) int
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %s: %s", r.surface, r.message, r.field, r.pattern)
}

// world is a node with all that it talks to.
type world struct {
	*node

	locks func(t *testing.T, do func()) // runs do while others go on using the node
}

// hold measures a row and holds its bounds. A large message that costs little whatever its
// size needs no comparison; texts that are hard to search are tried in small first.
func (w *world) hold(t *testing.T, r row) {
	small, large := sizes()
	var few cost
	var fewBytes, manyBytes int
	measured := false
	compare := func() {
		if !measured {
			measured = true
			few = w.least(t, r, func(c cost) bool { return c.CPU < spareCPU }, func() { fewBytes = r.send(t, small) })
		}
	}
	if strings.HasSuffix(r.pattern, "repeated") {
		if compare(); few.CPU > 8*spareCPU {
			t.Errorf("%v: %d bytes take %v of CPU time, expected at most %v", r, fewBytes, few.CPU, 8*spareCPU)
			return
		}
	}
	ratio := func() float64 { return growth * float64(manyBytes) / float64(max(fewBytes, 1)) }
	cpuBound := func() time.Duration { return time.Duration(ratio()*float64(few.CPU)) + spareCPU }
	memoryBound := func() int64 {
		if r.refused {
			return int64(beforeAuthorize*manyBytes) + spareMemory
		}
		return max(int64(ratio()*float64(few.Memory)), int64(fewPerByte*manyBytes)) + spareMemory
	}
	many := w.least(t, r, func(c cost) bool {
		if c.CPU > spareCPU || c.Memory > memoryBound() {
			compare()
		}
		return c.CPU <= cpuBound() && c.Memory <= memoryBound()
	}, func() { manyBytes = r.send(t, large) })
	if many.CPU > cpuBound() {
		t.Errorf("%v: %d bytes take %v of CPU time and %d take %v, expected at most %v", r, fewBytes, few.CPU, manyBytes, many.CPU, cpuBound())
	}
	if many.Memory > memoryBound() {
		t.Errorf("%v: %d bytes take %d of memory (%.1f for each), expected at most %d", r, manyBytes, many.Memory, float64(many.Memory)/float64(manyBytes), memoryBound())
	}
	if many.CPU <= longestLock || w.locks == nil {
		return // nothing that takes less can hold a lock for longer
	}
	var held cost
	for range tries {
		held = w.measure(t, " locks", func() { w.locks(t, func() { r.send(t, large) }) })
		if *only != "" {
			t.Logf("%v: others have waited %v for the lock that %s held", r, held.Waited, held.Lock)
		}
		if held.Waited <= held.Most {
			return
		}
	}
	t.Errorf("%v: others have waited %v for the lock that %s held, expected at most %v", r, held.Waited, held.Lock, held.Most)
}

// least measures until the cost is good, and returns the least of each. What was measured
// before may still keep the node busy, which a second try waits for.
func (w *world) least(t *testing.T, r row, good func(cost) bool, do func()) (c cost) {
	t.Helper()
	for try := range tries {
		how := ""
		if try > 0 {
			how = " settled"
		}
		now := w.measure(t, how, do)
		if *only != "" {
			t.Logf("%v: try %d: %v of CPU time, %d bytes", r, try, now.CPU, now.Memory)
		}
		if try == 0 {
			c = now
		}
		c.CPU, c.Memory = min(c.CPU, now.CPU), min(c.Memory, now.Memory)
		if good(c) {
			break
		}
	}
	return c
}

const (
	pageName  = "../../../docs/threat-model.md"
	pageBegin = "<!-- amplification: go test ./relay/hostile/amplify -run TestPage -update -->\n"
	pageEnd   = "<!-- end -->\n"
)

// page is the table of the rows, without what was measured: that is held and not shown.
func page(rows []row) string {
	type key struct{ surface, message string }
	fields, patterns := map[key]map[string]bool{}, map[key]map[string]bool{}
	refused := map[key]bool{}
	var order []key
	for _, r := range rows {
		k := key{r.surface, r.message}
		if fields[k] == nil {
			fields[k], patterns[k] = map[string]bool{}, map[string]bool{}
			order = append(order, k)
		}
		fields[k][r.field] = true
		patterns[k][r.pattern] = true
		refused[k] = refused[k] || r.refused
	}
	var b strings.Builder
	b.WriteString("\n| Surface | Message | Fields | Filled with | CPU time | Memory |\n|---|---|--:|---|---|---|\n")
	for _, k := range order {
		memory := "linear"
		if refused[k] {
			memory = fmt.Sprintf("linear; %d bytes for each before authorization", beforeAuthorize)
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %s | linear | %s |\n", k.surface, k.message, len(fields[k]), shortened(patterns[k]), memory)
	}
	b.WriteString("\n")
	return b.String()
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
	return strings.Join(all, ", ")
}

// holdPage holds that the page has the table of the rows.
func holdPage(t *testing.T, rows []row) {
	t.Helper()
	text, err := os.ReadFile(pageName)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s lacks the marks of its table", pageName)
	}
	want := before + pageBegin + page(rows) + pageEnd + after
	if *update {
		if err := os.WriteFile(pageName, []byte(want), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("%s does not have the rows that are measured: go test ./relay/hostile/amplify -run TestPage -update", pageName)
	}
}
