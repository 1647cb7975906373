package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// `make sim` and whoever looks into a failure set these.
var (
	simSeed   = flag.Uint64("sim.seed", 0, "run the plan of this seed alone")
	simPlan   = flag.String("sim.plan", "", "run the plan of this file alone")
	simFor    = flag.Duration("sim.for", 0, "run plans for so much CPU time, and shrink those that fail")
	simPlans  = flag.Int("sim.plans", 0, "as -sim.for, but run so many plans")
	simFrom   = flag.Uint64("sim.from", 1, "the first seed of -sim.for and -sim.plans; 0 takes one from the clock")
	simStaged = flag.Bool("sim.rollouts", false, "give all keys of plans of seeds a rollout policy, and let clients reject some changes")
	simShrink = flag.Int("sim.shrink", 1, "how many plans of each kind of failure are shrunk")
	simAgain  = flag.Int("sim.again", 0, "run a plan that fails so many times more; it counts as failed if it fails each time, and is only reported otherwise")
	simFirst  = flag.Bool("sim.first", false, "end with the first plan that fails")
	simLog    = flag.Bool("sim.log", false, "print what all parts of the world log")
)

// TestMain gives the simulation one processor: what happens at one time then has about the
// same order in each run of a plan.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// TestSim runs plans: a few of fixed seeds and those in testdata/found, which found a defect
// once, or what the flags say.
func TestSim(t *testing.T) {
	cfg := Config{Token: tokenFile(t)}
	if *simLog {
		cfg.Log = os.Stderr
	}
	if *simPlan != "" {
		report(t, cfg, planIn(t, *simPlan))
		return
	}
	if *simSeed != 0 {
		report(t, cfg, drawn(*simSeed))
		return
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { report(t, cfg, Draw(seed)) })
	}
	found, err := filepath.Glob(filepath.Join("testdata", "found", "*.plan"))
	if err != nil || len(found) == 0 {
		t.Fatalf("plans that found a defect: %v (%v)", found, err)
	}
	for i, file := range found {
		if i%every != 0 {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) { report(t, cfg, planIn(t, file)) })
	}
}

// drawn is the plan of a seed, as the flags say.
func drawn(seed uint64) Plan {
	if *simStaged {
		return DrawStaged(seed)
	}
	return Draw(seed)
}

func planIn(t *testing.T, file string) Plan {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return plan
}

// TestHunt runs plans of one seed after the other for as long as -sim.for says, or as many as
// -sim.plans, and prints the shortest plan of each that fails.
func TestHunt(t *testing.T) {
	if *simFor == 0 && *simPlans == 0 {
		t.Skip("make sim and make sim-check run it")
	}
	cfg := Config{Token: tokenFile(t)}
	began, shrunk := cpu(), time.Duration(0)
	simulated, plans, failed := time.Duration(0), 0, make(map[string]int)
	first := *simFrom
	if first == 0 {
		first = uint64(time.Now().Unix())
	}
	for seed := first; plans < *simPlans || cpu()-began-shrunk < *simFor; seed++ {
		plan := drawn(seed)
		r := once(t, cfg, plan)
		simulated, plans = simulated+r.Simulated, plans+1
		if r.First == "" {
			continue
		}
		if fails := failsAgain(t, cfg, plan); fails < *simAgain {
			t.Logf("seed %d fails in %d of %d runs, so it is reported and does not count: %s", seed, 1+fails, 1+*simAgain, r.Found[0])
			continue
		}
		failed[r.First]++
		t.Errorf("seed %d, plan of %d events, after %s of CPU: %s", seed, len(plan.Events), cpu()-began-shrunk, r.Found[0])
		if failed[r.First] <= *simShrink {
			before := cpu()
			shortest, last := shrink(t, cfg, plan, r, 2*time.Minute)
			shrunk += cpu() - before
			t.Errorf("seed %d, shortest plan of %d events:\n%s%s\n%s", seed, len(shortest.Events), shortest, last.Found[0], last.Detail)
		}
		if *simFirst {
			break
		}
	}
	used := cpu() - began - shrunk
	t.Logf("%d plans, %s simulated in %s of CPU: %.0f minutes a minute; failed: %v", plans, simulated, used, float64(simulated)/float64(used), failed)
}

// failsAgain runs a plan that has failed -sim.again times more, and returns how often it fails.
func failsAgain(t *testing.T, cfg Config, plan Plan) (fails int) {
	t.Helper()
	for range *simAgain {
		if r := once(t, cfg, plan); r.First != "" {
			fails++
		}
	}
	return fails
}

// shrink makes a plan that has failed as short as it can within some CPU time.
func shrink(t *testing.T, cfg Config, plan Plan, r Result, most time.Duration) (Plan, Result) {
	t.Helper()
	end, last := cpu()+most, r
	shortest := Shrink(plan, func(p Plan) bool {
		for range 2 { // what needs goroutines to meet does not fail each time
			if again := once(t, cfg, p); again.First == r.First {
				last = again
				return true
			}
		}
		return false
	}, func() bool { return cpu() < end })
	return shortest, last
}

func report(t *testing.T, cfg Config, plan Plan) {
	t.Helper()
	t.Logf("\n%s", plan)
	began := cpu()
	r := once(t, cfg, plan)
	used := cpu() - began
	t.Logf("%s simulated in %s of CPU: %.0f minutes a minute; %+v", r.Simulated, used, float64(r.Simulated)/float64(used), r.Counts)
	for _, text := range r.Found {
		t.Error(text)
	}
	if r.Detail != "" {
		t.Logf("\n%s", r.Detail)
	}
}

// once runs a plan in a bubble of its own.
func once(t *testing.T, cfg Config, plan Plan) (r Result) {
	t.Helper()
	// A goroutine that waits for what virtual time does not know stops the clock for good.
	watchdog := time.AfterFunc(stuckAfter, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("the clock of this plan stands still for %s:\n%s", stuckAfter, plan))
	})
	defer watchdog.Stop()
	synctest.Test(t, func(*testing.T) { r = Run(plan, cfg) })
	return r
}

// stuckAfter is far more than any plan takes, also on a busy machine.
const stuckAfter = 5 * time.Minute

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-secret-of-all-nodes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// cpu is how much CPU time this process has used, and children that of those that it has started.
func cpu() time.Duration { return usage(syscall.RUSAGE_SELF) }

func children() time.Duration { return usage(syscall.RUSAGE_CHILDREN) }

func usage(of int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(of, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
