package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"xdsrelay/bench/report"
)

// Phases of a run, in the order in which they are measured.
const (
	// PhaseOpen: streams are open, and nothing has been said on them.
	PhaseOpen = "open"
	// PhaseSynced: every client has subscribed, holds everything and has
	// acknowledged it.
	PhaseSynced = "synced"
	// PhaseChanged: after a number of changes that reached every client.
	PhaseChanged = "changed"
)

// warmup is how many clients a server has seen before the measurement starts,
// so that what all clients share is not counted for them.
const warmup = 8

// idleChanges is how many changes the last phase consists of.
const idleChanges = 20

// runTimeout bounds one run.
const runTimeout = 5 * time.Minute

// IdleConfig says what [MeasureIdle] measures.
type IdleConfig struct {
	// Clients are numbers of clients, each with a connection and a stream of
	// its own. Required.
	Clients []int
	// Resources are numbers of resources of each type: clusters, and as many
	// endpoint sets. Required.
	Resources []int
	// Profiles is a folder for heap and goroutine profiles of each run's last
	// phase; empty means none.
	Profiles string
	// Logf is told of each run; nil means nobody.
	Logf func(format string, args ...any)
}

// IdleReport is what idle streams cost.
type IdleReport struct {
	Machine report.Machine `json:"machine"`
	Changes int            `json:"changes"` // of the phase "changed"
	Runs    []IdleRun      `json:"runs"`
}

// IdleRun is one server with one number of clients.
type IdleRun struct {
	Server    string      `json:"server"`
	Variant   string      `json:"variant,omitempty"`
	Clients   int         `json:"clients"`
	Resources int         `json:"resources_per_type"`
	Before    Usage       `json:"before"` // without clients, after a few
	Phases    []IdlePhase `json:"phases"`
}

// IdlePhase is what the server held in one phase, and what each stream adds to
// the server without clients.
type IdlePhase struct {
	Phase     string    `json:"phase"`
	Usage     Usage     `json:"usage"`
	PerStream PerStream `json:"per_stream"`
}

// PerStream is a share of a [Usage]. Sizes are in bytes.
type PerStream struct {
	Goroutines float64 `json:"goroutines"`
	RSS        float64 `json:"rss"`
	RSSTrimmed float64 `json:"rss_trimmed"`
	Live       float64 `json:"live"`
	HeapInUse  float64 `json:"heap_in_use"`
	Stacks     float64 `json:"stacks"`
}

// MeasureIdle measures the floor and the relay in both variants, one run after
// the other.
func MeasureIdle(ctx context.Context, cfg IdleConfig) (*IdleReport, error) {
	if len(cfg.Clients) == 0 || len(cfg.Resources) == 0 {
		return nil, errors.New("bench: no numbers of clients or resources, expected at least one of each")
	}
	if cfg.Logf == nil {
		cfg.Logf = func(string, ...any) {}
	}
	measured := &IdleReport{
		Machine: report.ThisMachine(ctx, "fanout", "relay/cache", "relay/resource", "bench", "go.mod"), Changes: idleChanges,
	}
	var specs []idleSpec
	for i, resources := range cfg.Resources {
		for _, n := range cfg.Clients {
			if i == 0 { // it has none
				specs = append(specs, idleSpec{Server: ServerFloor, Clients: n, Resources: resources})
			}
			for _, delta := range []bool{true, false} {
				specs = append(specs, idleSpec{Server: ServerRelay, Delta: delta, Clients: n, Resources: resources})
			}
		}
	}
	for _, spec := range specs {
		run, err := runIdle(ctx, spec, cfg.Profiles)
		if err != nil {
			return nil, fmt.Errorf("bench: %s with %d clients and %d resources: %w", spec.Server, spec.Clients, spec.Resources, err)
		}
		last := run.Phases[len(run.Phases)-1].PerStream
		cfg.Logf("%s %s, %d clients, %d resources: %.1f goroutines, %.1f KB resident each", run.Server, run.Variant,
			run.Clients, run.Resources, last.Goroutines, last.RSSTrimmed/1000)
		measured.Runs = append(measured.Runs, run)
	}
	return measured, nil
}

// runIdle measures one server, from no clients to clients that got changes.
func runIdle(ctx context.Context, spec idleSpec, profiles string) (run IdleRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	run = IdleRun{Server: spec.Server, Clients: spec.Clients, Resources: spec.Resources}
	if spec.Server == ServerRelay {
		run.Variant = variantName(spec.Delta)
	}
	server, err := startChild(ctx, role{Role: "server", Idle: spec})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, server.end()) }()
	where, err := server.tell(order{Do: "address"})
	if err != nil {
		return run, err
	}
	spec.Addr = where.Addr
	if err := warmUp(ctx, spec); err != nil {
		return run, err
	}
	before, err := server.tell(order{Do: "measure"})
	if err != nil {
		return run, err
	}
	run.Before = *before.Usage

	clients, err := startChild(ctx, role{Role: "clients", Idle: spec})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, clients.end()) }()
	measure := func(phase string) error {
		o := order{Do: "measure", Count: spec.Clients}
		if profiles != "" {
			o.Profile = filepath.Join(profiles, fmt.Sprintf("%s%s-%d-%d-%s", run.Server, run.Variant, run.Clients, run.Resources, phase))
		}
		r, err := server.tell(o)
		if err == nil {
			run.Phases = append(run.Phases, IdlePhase{Phase: phase, Usage: *r.Usage, PerStream: r.Usage.per(spec.Clients, &run.Before)})
		}
		return err
	}
	if _, err := clients.tell(order{Do: "open"}); err != nil {
		return run, err
	}
	if err := measure(PhaseOpen); err != nil {
		return run, err
	}
	if _, err := clients.tell(order{Do: "subscribe"}); err != nil {
		return run, err
	}
	if spec.Server == ServerFloor {
		return run, measure(PhaseSynced) // it answers nothing
	}
	if _, err := clients.tell(order{Do: "await", Count: 0}); err != nil {
		return run, err
	}
	if err := measure(PhaseSynced); err != nil {
		return run, err
	}
	for revision := 1; revision <= idleChanges; revision++ {
		if _, err := server.tell(order{Do: "change", Count: revision}); err != nil {
			return run, err
		}
		if _, err := clients.tell(order{Do: "await", Count: revision}); err != nil {
			return run, fmt.Errorf("revision %d: %w", revision, err)
		}
	}
	return run, measure(PhaseChanged)
}

// warmUp lets a few clients get everything, and leave.
func warmUp(ctx context.Context, spec idleSpec) (err error) {
	spec.Clients = warmup
	clients, err := startChild(ctx, role{Role: "clients", Idle: spec})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clients.end()) }()
	orders := []string{"open", "subscribe", "await"}
	if spec.Server == ServerFloor {
		orders = orders[:2]
	}
	for _, o := range orders {
		if _, err := clients.tell(order{Do: o}); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

func variantName(delta bool) string {
	if delta {
		return "delta"
	}
	return "sotw"
}

// per returns what each of n streams adds to the usage before there were any.
func (u *Usage) per(n int, before *Usage) PerStream {
	share := func(now, then int64) float64 { return float64(now-then) / float64(n) }
	return PerStream{
		Goroutines: share(int64(u.Goroutines), int64(before.Goroutines)),
		// Against the trimmed process: garbage of its start is not the
		// streams' merit.
		RSS:        share(u.RSS, before.RSSTrimmed),
		RSSTrimmed: share(u.RSSTrimmed, before.RSSTrimmed),
		Live:       share(u.Live, before.Live),
		HeapInUse:  share(u.HeapInUse, before.HeapInUse),
		Stacks:     share(u.Stacks, before.Stacks),
	}
}
