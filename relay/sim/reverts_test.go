package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A simulation that finds nothing proves nothing by itself. So each file of testdata/reverts
// takes a fix out of the product again, and says which plan finds that, and which seed did
// first. `make sim-trust` shows it.

var simTrust = flag.String("sim.trust", "", "take fixes out, and show that plans find it: names in testdata/reverts with commas between them, or all; with -sim.for seeds are tried for so much CPU time each")

// revert is a fix that is taken out: a file of testdata/reverts.
type revert struct {
	name string
	what string        // in a sentence
	by   string        // the validator that finds it; empty where none does
	seed uint64        // the first that finds it; 0 where none does
	cpu  time.Duration // that it took
	note string        // what hunts with seeds showed where none is known
	plan string        // the shortest that finds it
	diff string
}

// foundBy is the line that says what finds a revert.
var foundBy = regexp.MustCompile(`(?m)^found by (\w+)(?: with seed (\d+) after (\S+))?(; .*)?$`)

// root is the root of the repository.
const root = "../.."

func readReverts(t *testing.T) (all []revert) {
	t.Helper()
	files, err := filepath.Glob("testdata/reverts/*.patch")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, diff, ok := strings.Cut(string(text), "\n--- ")
		what, head, _ := strings.Cut(head, "\n")
		r := revert{name: strings.TrimSuffix(filepath.Base(file), ".patch"), what: what, diff: "--- " + diff}
		if found := foundBy.FindStringSubmatch(head); found != nil {
			r.by, r.note = found[1], strings.TrimPrefix(found[4], "; ")
			if found[2] != "" {
				if r.seed, err = strconv.ParseUint(found[2], 10, 64); err == nil {
					r.cpu, err = time.ParseDuration(found[3])
				}
			}
		} else if _, why, ok := strings.Cut(head, "not found: "); ok {
			r.note, _, _ = strings.Cut(why, "\n")
		}
		if at := strings.Index(head, "seed="); at >= 0 {
			r.plan = head[at:]
		}
		if !ok || err != nil || what == "" || (r.by == "") != (r.plan == "") || r.seed == 0 && r.note == "" {
			t.Fatalf("%s: expected a sentence, a line like \"found by NotBack with seed 1 after 2s\" or \"not found: why\", a plan, and a diff (%v)", file, err)
		}
		all = append(all, r)
	}
	return all
}

// overlay writes the files that the revert changes, as they are then, and what `go build
// -overlay` reads. Each part of the diff has to fit at just one place.
func (r *revert) overlay(dir string) (file string, err error) {
	replace := make(map[string]string)
	for _, one := range strings.Split("\n"+r.diff, "\n--- a/")[1:] {
		name, rest, _ := strings.Cut(one, "\n")
		path, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		now := string(text)
		for _, hunk := range regexp.MustCompile(`(?m)^@@.*\n`).Split(rest, -1)[1:] {
			was, then := sides(hunk)
			if n := strings.Count(now, was); n != 1 {
				return "", fmt.Errorf("%s: %d places fit, expected one:\n%s", name, n, hunk)
			}
			now = strings.Replace(now, was, then, 1)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(now), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// sides are what a part of a diff replaces, and what it replaces that by.
func sides(hunk string) (was, then string) {
	for line := range strings.Lines(hunk) {
		switch line[0] {
		case '-':
			was += line[1:]
		case '+':
			then += line[1:]
		case ' ':
			was, then = was+line[1:], then+line[1:]
		}
	}
	return was, then
}

// row is the revert in the table of docs/internals/simulation.md.
func (r *revert) row() string {
	seed, cpu := r.note, ""
	if r.seed > 0 {
		seed, cpu = strconv.FormatUint(r.seed, 10), r.cpu.String()
		if r.note != "" {
			seed += " (" + r.note + ")"
		}
	}
	if r.by == "" {
		return fmt.Sprintf("| %#q | %s | not found | %s | | |", r.name, r.what, seed)
	}
	setup, events, _ := strings.Cut(strings.TrimSpace(r.plan), "\n")
	parts := strings.Split(events, "\n")
	if len(parts) > 6 {
		return fmt.Sprintf("| %#q | %s | %#q | %s | %s | %d events, in the patch |", r.name, r.what, r.by, seed, cpu, len(parts))
	}
	for _, has := range []string{"sotw=true", "guard=true", "kept=directory", "kept=redis"} {
		if strings.Contains(setup, has) {
			parts = append(parts, has)
		}
	}
	return fmt.Sprintf("| %#q | %s | %#q | %s | %s | %s |", r.name, r.what, r.by, seed, cpu, "`"+strings.Join(parts, "`, `")+"`")
}

// TestReverts: each fix can be taken out of the product as it is now, its plan can be read,
// and docs/internals/simulation.md says what is found.
func TestReverts(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "simulation.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readReverts(t) {
		if _, err := r.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if _, err := Parse(r.plan); r.plan != "" && err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if row := r.row(); !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/internals/simulation.md: expected the row\n%s", row)
		}
	}
}

// TestTrust: with a fix taken out, its plan finds that, and does not without.
func TestTrust(t *testing.T) {
	if *simTrust == "" {
		t.Skip("make sim-trust runs it")
	}
	for _, r := range readReverts(t) {
		if *simTrust != "all" && !strings.Contains(","+*simTrust+",", ","+r.name+",") {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			if *simFor == 0 && r.by == "" {
				t.Skip("no plan finds it")
			}
			dir := t.TempDir()
			bin := r.build(t, dir)
			if r.by != "" {
				r.replay(t, dir, bin)
			}
			if *simFor > 0 {
				r.hunt(t, bin)
			}
		})
	}
}

// build builds this package without the fix.
func (r *revert) build(t *testing.T, dir string) (bin string) {
	t.Helper()
	overlay, err := r.overlay(dir)
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(dir, "sim.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-pgo=off", "-overlay", overlay, "-c", "-o", bin, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// replay runs the plan with the fix and without. What needs goroutines to meet does not
// happen each time.
func (r *revert) replay(t *testing.T, dir, bin string) {
	t.Helper()
	plan, err := Parse(r.plan)
	if err != nil {
		t.Fatal(err)
	}
	if with := once(t, Config{Token: tokenFile(t)}, plan); with.First != "" {
		t.Errorf("with the fix: %s", with.Found[0])
	}
	file := filepath.Join(dir, "plan")
	if err := os.WriteFile(file, []byte(r.plan), 0o600); err != nil {
		t.Fatal(err)
	}
	began := children()
	var out []byte
	for range 5 {
		out, err = exec.CommandContext(t.Context(), bin, "-test.run", "^TestSim$", "-test.v", "-sim.plan", file).CombinedOutput()
		if err != nil && strings.Contains(string(out), " "+r.by+": ") {
			t.Logf("found by %s after %s of CPU", r.by, children()-began)
			return
		}
	}
	t.Errorf("without the fix, %s does not find it:\n%s", r.by, out)
}

// hunt tries seeds, from the first one, until one finds that the fix is missing. Those that
// find the same with the fix do not count.
func (r *revert) hunt(t *testing.T, bin string) {
	t.Helper()
	seed, began := *simFrom, children()
	for left := *simFor; left > 0; left = *simFor - (children() - began) {
		hunt := exec.CommandContext(t.Context(), bin, "-test.run", "^TestHunt$", "-test.v", "-test.timeout", "0", "-sim.for", left.String(),
			"-sim.from", strconv.FormatUint(seed, 10), "-sim.first", "-sim.shrink", "0")
		out, err := hunt.CombinedOutput()
		found := regexp.MustCompile(`seed (\d+), .* of CPU: (\w+): (.*)`).FindStringSubmatch(string(out))
		switch {
		case err == nil:
			continue // until the time is over
		case found == nil:
			t.Fatalf("%v\n%s", err, out)
		}
		if seed, err = strconv.ParseUint(found[1], 10, 64); err != nil {
			t.Fatal(err)
		}
		if with := once(t, Config{Token: tokenFile(t)}, Draw(seed)); with.First != found[2] {
			t.Logf("found by %s with seed %d after %s: %s", found[2], seed, (children() - began).Round(time.Second), found[3])
			return
		}
		seed++
	}
	t.Errorf("not found in %s of CPU, up to seed %d", *simFor, seed)
}
