package report

import (
	"fmt"
	"strings"
)

// Result is what one scenario gave.
type Result struct {
	Scenario string `json:"scenario"`
	// Answers is the question that the scenario answers.
	Answers string `json:"answers"`
	// Command repeats the measurement.
	Command string  `json:"command"`
	Machine Machine `json:"machine"`
	// Rounds is how often each target was measured.
	Rounds int `json:"rounds"`
	// Targets are what was measured; the first is the reference of all ratios.
	Targets []string `json:"targets"`
	Cases   []Case   `json:"cases"`
}

// Runs is how many runs there were.
func (r *Result) Runs() (n int) {
	for _, c := range r.Cases {
		n += len(c.Runs)
	}
	return n
}

// Case is one setup, measured with each target.
type Case struct {
	Setup Setup `json:"setup"`
	Runs  []Run `json:"runs"`
}

// Setup says what is served, and to whom.
type Setup struct {
	// Variant is the variant of xDS that the clients speak: delta or sotw.
	Variant string `json:"variant"`
	// Clients is how many there are, spread evenly over Keys groups of clients
	// that want the same.
	Clients int `json:"clients"`
	Keys    int `json:"keys"`
	// PerConnection is how many clients share a connection; 0 means that each has its own.
	PerConnection int `json:"per_connection,omitempty"`
	// Resources is the number of clusters of a key, and of its load assignments.
	Resources int `json:"resources"`
	// Listeners is the number of listeners of a key, and of its routes.
	Listeners int `json:"listeners,omitempty"`
	// Size is what each cluster is padded to, EndpointSize the same for load
	// assignments, in bytes on the wire; 0 is their natural size.
	Size         int `json:"size,omitempty"`
	EndpointSize int `json:"endpoint_size,omitempty"`
	// Nodes is the number of nodes of the target, if it can have several.
	Nodes int `json:"nodes"`
	// Tier says that the nodes are one tier, with a Redis.
	Tier bool `json:"tier,omitempty"`
	// Slow and Stuck are the shares of clients that read slowly or stop reading,
	// in percent.
	Slow  float64 `json:"slow,omitempty"`
	Stuck float64 `json:"stuck,omitempty"`
	// Types are the short names of the types that clients ask for, with commas
	// between; empty means all there are.
	Types string `json:"types,omitempty"`
	// Admit is how many new streams a relay lets in while it is busy, beside what it
	// brings in sync in a second; 0 is its default.
	Admit int `json:"admit,omitempty"`
	// MinInterval is the minimum interval of clusters and endpoints at a relay
	// (downstream.min_interval), in milliseconds; 0 is none.
	MinInterval int `json:"min_interval_ms,omitempty"`
	// Cold says that no client was there before, so that the content of keys counts, too.
	Cold bool `json:"cold,omitempty"`
	// Equal says that all keys have the same resources.
	Equal bool `json:"equal,omitempty"`
	// TLS is how clients connect; empty means in plaintext.
	TLS string `json:"tls,omitempty"`
	// Kept says that a relay keeps last known good, and Bake is the bake of each step of a rollout
	// policy of all keys, in seconds; 0 is no policy.
	Kept bool `json:"last_known_good,omitempty"`
	Bake int  `json:"bake_s,omitempty"`
	// ReportEvery is the interval of the load reports of all clients, in milliseconds; 0 is none.
	ReportEvery int `json:"report_every_ms,omitempty"`
	// Memory is the memory limit of each process of the target that is written in Go
	// (GOMEMLIMIT), in bytes; 0 is none.
	Memory int64 `json:"memory,omitempty"`
}

// String is the setup in words, without what is as usual.
func (s Setup) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s clients, %s", count(float64(s.Clients)), s.Variant)
	if s.Keys != 1 {
		fmt.Fprintf(&b, ", %s keys", count(float64(s.Keys)))
	}
	if s.PerConnection > 0 {
		fmt.Fprintf(&b, ", %d to a connection", s.PerConnection)
	}
	fmt.Fprintf(&b, ", %s CDS + %[1]s EDS", count(float64(s.Resources)))
	if s.Equal {
		b.WriteString(", equal in all keys")
	}
	if s.Listeners > 0 {
		fmt.Fprintf(&b, ", %s LDS + %[1]s RDS", count(float64(s.Listeners)))
	}
	if s.Size > 0 {
		fmt.Fprintf(&b, ", clusters of %s", Bytes.Format(float64(s.Size)))
	}
	if s.EndpointSize > 0 {
		fmt.Fprintf(&b, ", endpoints of %s", Bytes.Format(float64(s.EndpointSize)))
	}
	if s.Types != "" {
		fmt.Fprintf(&b, ", asked for %s alone", s.Types)
	}
	if s.Nodes > 1 {
		fmt.Fprintf(&b, ", %d nodes", s.Nodes)
	}
	if s.Tier {
		b.WriteString(" of a tier")
	}
	if s.Slow > 0 {
		fmt.Fprintf(&b, ", %g %% slow", s.Slow)
	}
	if s.Stuck > 0 {
		fmt.Fprintf(&b, ", %g %% stuck", s.Stuck)
	}
	if s.Admit > 0 {
		fmt.Fprintf(&b, ", a busy relay lets in %s at a time, or what it syncs in 1 s", count(float64(s.Admit)))
	}
	if s.TLS != "" {
		fmt.Fprintf(&b, ", %s", s.TLS)
	}
	if s.MinInterval > 0 {
		fmt.Fprintf(&b, ", minimum interval of %d ms", s.MinInterval)
	}
	if s.Bake > 0 {
		fmt.Fprintf(&b, ", rollout policy with bakes of %d s", s.Bake)
	}
	if s.ReportEvery > 0 {
		fmt.Fprintf(&b, ", load reports each %d ms", s.ReportEvery)
	}
	if s.Memory > 0 {
		fmt.Fprintf(&b, ", memory limit of %s", Bytes.Format(float64(s.Memory)))
	}
	return b.String()
}

// How clients connect that do not in plaintext.
const (
	MTLS        = "mTLS"              // they show certificates each time
	MTLSTickets = "mTLS with tickets" // they resume their sessions when they reconnect
)

// Connections is how many connections the clients make.
func (s Setup) Connections() int {
	each := max(s.PerConnection, 1)
	return (s.Clients + each - 1) / each
}

// StuckClients is how many clients are stuck.
func (s Setup) StuckClients() int { return int(float64(s.Clients) * s.Stuck / 100) }

// Run is one target that went through the scenario once.
type Run struct {
	Target string `json:"target"`
	Round  int    `json:"round"` // from 1
	// Error is why the run ended early; what came before it is there.
	Error string `json:"error,omitempty"`
	// Violations counts breaches of the protocol that the clients saw, by kind.
	Violations map[string]Violation `json:"violations,omitempty"`
	// Ends counts connections and streams that ended without the clients' doing.
	Ends map[string]int64 `json:"ends,omitempty"`
	// Before is the target without clients, and HeapBefore its heap, if that is known.
	Before     Use    `json:"before"`
	HeapBefore Heap   `json:"heap_before,omitzero"`
	Steps      []Step `json:"steps"`
	// Samples is the target over time.
	Samples []Sample `json:"samples,omitempty"`
}

// Violation is one way in which the protocol was broken.
type Violation struct {
	Count int64 `json:"count"`
	// First describes the first one.
	First string `json:"first"`
}

// The kinds of steps.
const (
	Connect = "connect" // all clients connect, and get everything
	Idle    = "idle"    // nothing happens
	Change  = "change"  // resources change
	Storm   = "storm"   // all clients connect anew
	Restart = "restart" // the nodes are restarted, one after the other
	Release = "release" // clusters change, and a rollout policy decides which clients receive that
)

// Step is a part of a run that was measured by itself. Counts and CPU time are
// those of this step alone.
type Step struct {
	Name string `json:"name"` // one of a run's steps has it
	Kind string `json:"kind"`
	// At is when the step began, in seconds since the run did, and Seconds how
	// long it took.
	At      float64 `json:"at"`
	Seconds float64 `json:"seconds"`
	Target  Use     `json:"target"`
	// Heap is the target's, if that is known: the bytes that are live in the end, and the objects that
	// were allocated in the step.
	Heap   Heap `json:"heap,omitzero"`
	Origin Use  `json:"origin,omitzero"` // if it is a process of its own
	Fleet  Use  `json:"fleet"`
	// Synced is how many clients held all they have to in the end.
	Synced  int     `json:"synced"`
	Clients Traffic `json:"clients"`
	// Load is what the origin had to do.
	Load Load `json:"load,omitzero"`
	// Tier is what the nodes exchanged, if they are one.
	Tier Tier `json:"tier,omitzero"`
	// Rollout is what became of a change that a rollout policy released; nil for other steps.
	Rollout *Rollout `json:"rollout,omitempty"`
	// Changes is how many changes there were, and Late how many seconds after it
	// was due the origin made one, at most.
	Changes int     `json:"changes,omitempty"`
	Late    float64 `json:"late,omitempty"`
	// LogLines and LogBytes are what the target logged.
	LogLines int `json:"log_lines"`
	// Refused is how many streams the target ended with RESOURCE_EXHAUSTED.
	Refused  int64 `json:"refused,omitempty"`
	LogBytes int   `json:"log_bytes"`
	// Rested is the resident memory after the target was at rest for some seconds, in bytes; 0 if
	// that was not read.
	Rested int64 `json:"rested,omitempty"`
	// Latency is how long each client waited: for a change from when it was due,
	// or from its connection until it held everything.
	Latency *Latency `json:"latency,omitempty"`
}

// Use is what processes used.
type Use struct {
	CPU    float64 `json:"cpu"`    // seconds
	System float64 `json:"system"` // seconds of these in the kernel, to 10 ms
	RSS    int64   `json:"rss"`    // bytes, at the end
	Peak   int64   `json:"peak"`   // bytes, so far
}

// Heap is what processes that are written in Go have on their heaps.
type Heap struct {
	Live      int64 `json:"live"`      // bytes, after a collection
	InUse     int64 `json:"in_use"`    // bytes that the runtime needs for these, for stacks and for itself
	Allocated int64 `json:"allocated"` // objects, whether they are still there or not
}

// Traffic is what clients received and answered.
type Traffic struct {
	Responses int64 `json:"responses"`
	Resources int64 `json:"resources"`
	Resent    int64 `json:"resent"` // of the resources, those that a client held already
	Bytes     int64 `json:"bytes"`  // received, on the wire
	Sent      int64 `json:"sent"`   // bytes, on the wire
	ACKs      int64 `json:"acks"`
	NACKs     int64 `json:"nacks"`
}

// Load is what a control plane was asked and answered.
type Load struct {
	Streams   int64 `json:"streams"` // opened
	Open      int64 `json:"open"`    // at the end
	Requests  int64 `json:"requests"`
	Responses int64 `json:"responses"`
	BytesIn   int64 `json:"bytes_in"`
	BytesOut  int64 `json:"bytes_out"`
}

// Tier is what nodes of a tier exchanged with Redis and with each other.
type Tier struct {
	// Calls is how many commands nodes sent to Redis, Scripted how many their scripts ran there.
	Calls    int64 `json:"calls"`
	Scripted int64 `json:"scripted"`
	// RedisIn and RedisOut are bytes that Redis received and sent.
	RedisIn  int64 `json:"redis_in"`
	RedisOut int64 `json:"redis_out"`
	// Peers is bytes between nodes, both ways.
	Peers int64 `json:"peers"`
}

// Latency is a distribution, in milliseconds.
type Latency struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
	// Curve is the value at ever higher percentiles, for a plot.
	Curve []Point `json:"curve,omitempty"`
}

// Point is a percentile, from 0 to 100, and its value in milliseconds.
type Point struct {
	Percentile float64 `json:"p"`
	Value      float64 `json:"v"`
}

// Sample is a target at one moment.
type Sample struct {
	At  float64 `json:"at"`  // seconds since the run began
	CPU float64 `json:"cpu"` // cores in use since the sample before
	RSS int64   `json:"rss"` // bytes
}
