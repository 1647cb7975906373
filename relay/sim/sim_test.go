package sim

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// `make sim` and whoever looks into a failure set these.
var (
	simSeed = flag.Uint64("sim.seed", 0, "run the plan of this seed alone")
	simPlan = flag.String("sim.plan", "", "run the plan of this file alone")
	simFor  = flag.Duration("sim.for", 0, "run plans for so much CPU time, and shrink those that fail")
	simLog  = flag.Bool("sim.log", false, "print what all parts of the world log")
)

// TestMain gives the simulation one processor: what happens at one time then has about the
// same order in each run of a plan.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// TestSim runs plans: a few of fixed seeds, or what the flags say.
func TestSim(t *testing.T) {
	cfg := Config{Token: tokenFile(t)}
	if *simLog {
		cfg.Log = os.Stderr
	}
	if *simSeed != 0 {
		report(t, cfg, Draw(*simSeed))
		return
	}
	for seed := uint64(1); seed < 4; seed++ {
		report(t, cfg, Draw(seed))
	}
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
	synctest.Test(t, func(*testing.T) { r = Run(plan, cfg) })
	return r
}

func tokenFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a-secret-of-all-nodes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// cpu is how much CPU time this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var _ io.Writer = os.Stderr
