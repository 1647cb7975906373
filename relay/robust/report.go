package robust

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/robust/origin"
)

// Report is what a run showed.
type Report struct {
	Commit     string        `json:"commit"` // of the relay; empty if it is not known
	Seed       uint64        `json:"seed"`
	Nodes      int           `json:"nodes"`
	Clients    int           `json:"clients"`
	Keys       int           `json:"keys"`
	Resources  int           `json:"resources_per_key"`
	Origin     string        `json:"origin"`
	Tier       bool          `json:"tier"`
	Cluster    bool          `json:"redis_cluster"` // the tier's Redis is a cluster; otherwise it is one server
	Store      string        `json:"store"`         // of the last known good state; empty for none
	Guard      bool          `json:"guard"`         // nodes hold back mass removals
	Lease      time.Duration `json:"lease_ns"`
	Started    time.Time     `json:"started"`
	Seconds    float64       `json:"seconds"`
	Guarantees []string      `json:"guarantees"`
	Totals     Totals        `json:"totals"`
	// LongestWait is how long a client waited at most for its first configuration, in
	// seconds, from a node that was ready, while another node of the tier had it.
	LongestWait float64 `json:"longest_wait_seconds"`
	// LongestAway is how long a node did without its Redis Cluster at most, in seconds, from
	// when a replica had taken over.
	LongestAway float64       `json:"longest_without_redis_seconds,omitempty"`
	Rounds      []RoundReport `json:"rounds"`
	// Contradictions are what did not hold; none means that all did.
	Contradictions []string `json:"contradictions"`
}

// RoundReport is one round.
type RoundReport struct {
	Faults  []string `json:"faults"`
	Changes int      `json:"changes"`
	Seconds float64  `json:"seconds"`
	Totals  Totals   `json:"totals"`
}

func newReport(w *World) *Report {
	r := &Report{
		Seed: w.cfg.Seed, Nodes: w.cfg.Nodes, Clients: w.cfg.Clients, Keys: w.cfg.Keys, Resources: w.cfg.Size * len(origin.Types),
		Origin: "delta", Tier: w.cfg.Tier, Cluster: w.cfg.Cluster, Store: w.cfg.Store, Guard: w.cfg.Guard, Lease: w.cfg.Lease, Started: time.Now().UTC(), Contradictions: []string{},
		Guarantees: append(w.suite.Guarantees(), "Served", "Protocol", "Consistent", "Alive"),
	}
	if w.cfg.SotW {
		r.Origin = "sotw"
	}
	if w.cfg.Guard {
		r.Guarantees = append(r.Guarantees, "Guarded")
	}
	if w.cfg.Cluster {
		r.Guarantees = append(r.Guarantees, "Failover")
	}
	return r
}

func (r *Report) round(what round, began time.Duration, w *World) {
	line := RoundReport{Changes: what.changes, Seconds: (w.to.Since() - began).Seconds()}
	for _, f := range what.faults {
		line.Faults = append(line.Faults, f.name)
	}
	var before Totals
	for _, earlier := range r.Rounds {
		before = earlier.Totals.plus(before)
	}
	line.Totals = w.totals.minus(before)
	r.Rounds = append(r.Rounds, line)
}

func (r *Report) end(w *World) {
	r.Seconds, r.Totals, r.LongestWait = w.to.Since().Seconds(), w.totals, w.served.longest.Seconds()
	if w.shards != nil {
		r.LongestAway = w.shards.longest.Seconds()
	}
	for _, c := range w.found {
		r.Contradictions = append(r.Contradictions, c.String())
	}
}

// Name is the same for all runs of one kind, so that the report of a later run replaces the one
// before.
func (r *Report) Name() string {
	parts := []string{"robustness", r.Origin}
	if !r.Tier {
		parts = append(parts, "alone")
	}
	if r.Cluster {
		parts = append(parts, "cluster")
	}
	parts = append(parts, cmp.Or(r.Store, "memory"))
	if r.Guard {
		parts = append(parts, "guard")
	}
	return strings.Join(parts, "-")
}

// Write writes the report into a folder, as JSON and to be read.
func (r *Report) Write(dir, name string) error {
	return write(dir, name, r, r.Page())
}

func write(dir, name string, report any, page string) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".md"), []byte(page), 0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// together says what the nodes have in common.
func (r *Report) together() string {
	switch {
	case !r.Tier:
		return "each on its own"
	case r.Cluster:
		return "a tier with a Redis Cluster of three masters and three replicas"
	default:
		return "a tier with one Redis server"
	}
}

// Page is the report in Markdown.
func (r *Report) Page() string {
	var b strings.Builder
	verdict := "**All guarantees held.**"
	if n := len(r.Contradictions); n > 0 {
		verdict = fmt.Sprintf("**%d contradictions**, below.", n)
	}
	fmt.Fprintf(&b, "# Robustness: %s of faults\n\n%s\n\n", time.Duration(r.Seconds*1e9).Round(time.Second), verdict)
	fmt.Fprintf(&b, "Commit %s, seed %d, %s. %d relay processes (%s, lease %v; last known good state: %s; removal guard: %t), %d clients of all four variants over %d keys of %d resources, a %s origin.\n\n",
		cmp.Or(r.Commit, "not known"), r.Seed, r.Started.Format(time.DateTime+" UTC"), r.Nodes, r.together(), r.Lease, cmp.Or(r.Store, "not kept"), r.Guard, r.Clients, r.Keys, r.Resources, r.Origin)
	fmt.Fprintf(&b, "Checked: %s.\n\n", strings.Join(r.Guarantees, ", "))
	fmt.Fprintf(&b, "%d rounds; the origin changed %d resources, saw %d streams and sent %d responses; clients opened %d streams, lost %d with their nodes, and got %d responses of %.1f MB.\n\n",
		len(r.Rounds), r.Totals.OriginChanges, r.Totals.OriginStreams, r.Totals.OriginResponses,
		r.Totals.ClientStreams, r.Totals.LostStreams, r.Totals.ClientResponses, float64(r.Totals.ClientBytes)/1e6)

	fmt.Fprintf(&b, "No client waited for its first configuration for longer than %.1f s from a node that was ready, while another node of the tier had it.\n\n", r.LongestWait)

	if r.Cluster {
		fmt.Fprintf(&b, "No node did without Redis for longer than %.1f s after a replica had taken over.\n\n", r.LongestAway)
	}
	b.WriteString("A round is its faults, what clients get meanwhile, and the way back to rest. Rounds with two faults count for both.\n\n")
	b.WriteString("| Fault | Rounds | Median s | Longest s |\n|---|--:|--:|--:|\n")
	took := make(map[string][]float64)
	for _, round := range r.Rounds {
		for _, f := range round.Faults {
			took[f] = append(took[f], round.Seconds)
		}
	}
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(took[b]), len(took[a])), cmp.Compare(a, b))
	})
	for _, f := range names {
		slices.Sort(took[f])
		fmt.Fprintf(&b, "| %s | %d | %.1f | %.1f |\n", f, len(took[f]), took[f][len(took[f])/2], took[f][len(took[f])-1])
	}
	for _, c := range r.Contradictions {
		fmt.Fprintf(&b, "\n```\n%s\n```\n", c)
	}
	return b.String()
}
