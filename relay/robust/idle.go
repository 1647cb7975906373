package robust

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// IdleReport is what a tier does while nothing changes.
type IdleReport struct {
	Nodes   int           `json:"nodes"`
	Clients int           `json:"clients"`
	Keys    int           `json:"keys"`
	Started time.Time     `json:"started"`
	For     time.Duration `json:"for_ns"`
	// Copies is how many pairs of a node and a key with clients there are.
	Copies int `json:"copies"`
	// CPU is what each node used, in percent of a core, from the least.
	CPU []float64 `json:"cpu_percent"`
	// Calls is how many commands Redis got in a second, by name. Those in scripts are not in
	// it. Scripted is how many there were of these.
	Calls    map[string]float64 `json:"calls"`
	Scripted float64            `json:"scripted"`
}

// Idle measures a tier that is at rest. It has to stay so.
func (w *World) Idle(during time.Duration) *IdleReport {
	w.t.Helper()
	r := &IdleReport{Nodes: w.cfg.Nodes, Clients: w.cfg.Clients, Keys: w.cfg.Keys, Started: time.Now().UTC(), For: during}
	r.Copies = w.fleet.copies()
	cpu, calls := w.cpu(), w.commands()
	<-time.After(during)
	took := time.Since(r.Started).Seconds()
	for i, after := range w.cpu() {
		r.CPU = append(r.CPU, (after-cpu[i])/took*100)
	}
	slices.Sort(r.CPU)
	r.Calls = make(map[string]float64)
	for name, after := range w.commands() {
		each := float64(after-calls[name]) / took
		switch name {
		case "info": // our own
		case "evalsha", "eval", "ping", "subscribe", "publish", "get", "set", "del":
			r.Calls[name] = each
		default:
			r.Scripted += each
		}
	}
	return r
}

// All is how many commands Redis got in a second, without those in scripts.
func (r *IdleReport) All() (n float64) {
	for _, c := range r.Calls {
		n += c
	}
	return n
}

// copies is how many pairs of a node and a key there are among the clients.
func (f *Fleet) copies() int {
	seen := make(map[string]bool)
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, name := range f.names {
		seen[f.at[name]+" "+f.keys[i]] = true
	}
	return len(seen)
}

// cpu is how many seconds of a core each node has used.
func (w *World) cpu() (all []float64) {
	w.t.Helper()
	const ticks = 100 // in a second, on Linux
	for _, n := range w.nodes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
		if err != nil {
			w.t.Fatalf("the CPU time of node %s: %v", n.name, err)
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind the name of the program
		fields := strings.Fields(rest)
		used := 0
		for _, f := range fields[11:13] { // of the user and of the system
			one, err := strconv.Atoi(f)
			if err != nil {
				w.t.Fatalf("the CPU time of node %s: %v", n.name, err)
			}
			used += one
		}
		all = append(all, float64(used)/ticks)
	}
	return all
}

// commands is how many commands Redis has run, by name.
func (w *World) commands() map[string]int {
	w.t.Helper()
	info, _ := w.redis.Do("INFO", "commandstats").(string)
	all := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^cmdstat_(\S+?):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			w.t.Fatalf("the commands of Redis: %v", err)
		}
		all[m[1]] = n
	}
	return all
}

// Write writes the report into a folder, as JSON and to be read.
func (r *IdleReport) Write(dir, name string) error { return write(dir, name, r, r.Page()) }

// Page is the report in Markdown.
func (r *IdleReport) Page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# An idle tier

%d relay processes with defaults and one Redis, %d clients of all four variants on %d keys, of which each node has %.0f in the mean; nothing changes for %v from %s.
Other programs run on the machine meanwhile.

| What | Figure |
|---|--:|
`, r.Nodes, r.Clients, r.Keys, float64(r.Copies)/float64(r.Nodes), r.For, r.Started.Format(time.DateTime+" UTC"))
	fmt.Fprintf(&b, "| CPU of a node, median | %.2f %% of a core |\n", r.CPU[len(r.CPU)/2])
	fmt.Fprintf(&b, "| CPU of a node, least and most | %.2f %% and %.2f %% |\n", r.CPU[0], r.CPU[len(r.CPU)-1])
	fmt.Fprintf(&b, "| calls to Redis in a second | %.1f |\n", r.All())
	for _, name := range slices.Sorted(maps.Keys(r.Calls)) {
		if r.Calls[name] > 0 {
			fmt.Fprintf(&b, "| of these %s | %.1f |\n", strings.ToUpper(name), r.Calls[name])
		}
	}
	fmt.Fprintf(&b, "| commands that scripts run there in a second | %.1f |\n", r.Scripted)
	return b.String()
}
