package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write writes the report to a folder, as idle-streams.json and, to be read,
// as idle-streams.md.
func (r *IdleReport) Write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for name, content := range map[string][]byte{
		"idle-streams.json": append(b, '\n'),
		"idle-streams.md":   []byte(r.Markdown()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

const idleIntro = `Each client is a TCP connection (plaintext, loopback) with one aggregated stream; server and clients are
separate processes. Clients subscribe to all clusters and, by name, to as many endpoint sets. *Floor* is
grpc-go with the same options and a handler that only receives.

*Open*: before the first request. *Synced*: all clients have everything and have acknowledged it. *Changed*: after
%d changes of a cluster and an endpoint set each that reached all clients. *Resident* is the resident set as
found, with all the garbage that the collector leaves until it has grown by as much as lives; *trimmed* is the
same after a collection that gave free memory back; *live* are the objects on the heap. KB are 1000 bytes.

`

const idleTable = "| Server | Clients | Resources | Phase | Goroutines | Resident KB | Trimmed KB | Live KB | Stacks KB | Trimmed above the floor |\n" +
	"|---|--:|--:|---|--:|--:|--:|--:|--:|--:|\n"

// Markdown is the report as a page.
func (r *IdleReport) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What an idle stream costs\n\n%s. Written by `make bench-idle`.\n\n", r.Machine.String())
	fmt.Fprintf(&b, idleIntro, r.Changes)
	if further := r.further(); len(further) > 0 {
		b.WriteString("## What each further stream adds\n\n" +
			"The difference between the most and the fewest clients, so that nothing which clients share is in it.\n\n" + idleTable)
		writeRows(&b, further)
		b.WriteString("\n")
	}
	b.WriteString("## Per stream, against the same server without clients\n\n" +
		"What clients share (tables, encoded responses, the allocator's own) is divided by their number here.\n\n" + idleTable)
	writeRows(&b, r.Runs)
	b.WriteString("\n## The goroutines of a stream, by where they begin\n\n")
	for _, run := range r.Runs {
		if run.Clients != r.Runs[0].Clients || run.Resources != r.Runs[0].Resources {
			continue
		}
		by := run.Phases[len(run.Phases)-1].Usage.GoroutinesBy
		fmt.Fprintf(&b, "- %s:", run.name())
		for _, f := range slices.Sorted(maps.Keys(by)) {
			if n := float64(by[f]) / float64(run.Clients); n >= 0.05 {
				fmt.Fprintf(&b, " `%s` %.2f", f[strings.LastIndex(f, "/")+1:], n)
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (r *IdleRun) name() string { return strings.TrimSpace(r.Server + " " + r.Variant) }

func writeRows(b *strings.Builder, runs []IdleRun) {
	for _, run := range runs {
		resources := "–"
		if run.Server != ServerFloor {
			resources = fmt.Sprintf("2 × %d", run.Resources)
		}
		for _, p := range run.Phases {
			above := "–"
			if floor := floorOf(runs, run.Clients, p.Phase); floor != nil && run.Server != ServerFloor {
				above = fmt.Sprintf("%.1f", (p.PerStream.RSSTrimmed-floor.RSSTrimmed)/1000)
			}
			s := p.PerStream
			fmt.Fprintf(b, "| %s | %d | %s | %s | %.2f | %.1f | %.1f | %.1f | %.1f | %s |\n", run.name(), run.Clients,
				resources, p.Phase, s.Goroutines, s.RSS/1000, s.RSSTrimmed/1000, s.Live/1000, s.Stacks/1000, above)
		}
	}
}

// floorOf returns what the reference with as many clients costs in a phase.
func floorOf(runs []IdleRun, clients int, phase string) *PerStream {
	if phase == PhaseChanged {
		phase = PhaseSynced // the floor knows no changes
	}
	for _, run := range runs {
		if run.Server != ServerFloor || run.Clients != clients {
			continue
		}
		for _, p := range run.Phases {
			if p.Phase == phase {
				return &p.PerStream
			}
		}
	}
	return nil
}

// further returns, for each kind of run that there is with several numbers of
// clients, what a stream adds between the fewest and the most.
func (r *IdleReport) further() (out []IdleRun) {
	for _, few := range r.Runs {
		for _, many := range r.Runs {
			if few.name() != many.name() || few.Resources != many.Resources || few.Clients != r.fewest() ||
				many.Clients != r.most() || r.fewest() == r.most() {
				continue
			}
			more := many.Clients - few.Clients
			run := IdleRun{Server: few.Server, Variant: few.Variant, Clients: more, Resources: few.Resources}
			for i, p := range many.Phases {
				run.Phases = append(run.Phases, IdlePhase{Phase: p.Phase, PerStream: p.Usage.per(more, &few.Phases[i].Usage)})
			}
			out = append(out, run)
		}
	}
	return out
}

func (r *IdleReport) fewest() int {
	return slices.MinFunc(r.Runs, func(a, b IdleRun) int { return a.Clients - b.Clients }).Clients
}

func (r *IdleReport) most() int {
	return slices.MaxFunc(r.Runs, func(a, b IdleRun) int { return a.Clients - b.Clients }).Clients
}
