package scenario

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"xdsrelay/bench/report"
)

var update = flag.Bool("update", false, "write the table of docs/internals/benchmarks.md again")

const (
	page      = "../../docs/internals/benchmarks.md"
	pageBegin = "<!-- scenarios: go test ./bench/scenario -run TestPage -update -->\n"
	pageEnd   = "<!-- end -->\n"
)

// TestPage holds that docs/internals/benchmarks.md lists the scenarios, and what the relay
// is meant to reach in them.
func TestPage(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), pageBegin)
	_, after, found := strings.Cut(rest, pageEnd)
	if !ok || !found {
		t.Fatalf("%s lacks the marks of its table", page)
	}
	want := before + pageBegin + pageTables() + pageEnd + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(b) != want {
		t.Errorf("%s is not up to date: go test ./bench/scenario -run TestPage -update", page)
	}
}

func pageTables() string {
	var b strings.Builder
	b.WriteString("\n| Scenario | Answers | Setups | Repeat it |\n|---|---|---|---|\n")
	for _, s := range All() {
		var setups []string
		for _, setup := range s.Setups {
			setups = append(setups, setup.String())
		}
		fmt.Fprintf(&b, "| %s | %s | %s | `bin/xdsbench compare %s` |\n", s.Name, s.Answers, strings.Join(setups, "<br>"), s.Name)
	}
	b.WriteString("\nTargets of the relay:\n\n| What | Scenario | Limit |\n|---|---|---|\n")
	for _, budget := range report.Budgets() {
		name := budget.Scenario
		if budget.Variant != "" {
			name += ", " + budget.Variant
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", budget.What, name, budget.LimitText())
	}
	b.WriteString("\n")
	return b.String()
}
