package robust

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/origin"
	"xdsrelay/bench/report"
	"xdsrelay/bench/scenario"
	"xdsrelay/relay/robust/record"
)

// The size of TestLimit.
const (
	limitClients = 4000 // half of each variant
	limitComing  = 100  // clients more that reconnect again and again
	limitChanges = 20
	limitPause   = 200 * time.Millisecond // between two changes
)

// TestLimit runs a node with the shipped configuration and the memory that docs/operate/sizing.md
// asks for. All its clients get small changes, while some more reconnect again and again:
// no client is shed, and none is refused for want of memory.
func TestLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of clients of a process whose memory must not be that of the race detector")
	}
	l := newLimited(t)
	stop := l.reconnects(t)
	l.changes(t)
	stop()
	l.refusedNobody(t)
}

// limited is a node with as many clients as its memory is for.
type limited struct {
	node   *Node
	origin *drive.Driver
	steady []*fleet.Fleet
	coming []*fleet.Fleet
}

func newLimited(t *testing.T) *limited {
	t.Helper()
	spec := content.Spec{Keys: 1, Clusters: 100}
	o, err := origin.New(origin.Config{Spec: spec, Cache: origin.Linear})
	if err != nil {
		t.Fatal(err)
	}
	l := &limited{}
	if l.origin, err = drive.New(o, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.origin.Close)
	l.start(t, build(t))
	for i, delta := range []bool{true, false} {
		cfg := fleet.Config{Addrs: []string{l.node.addr}, Clients: limitClients / 2, FirstClient: i * limitClients, Content: spec, Delta: delta}
		l.steady = append(l.steady, connect(t, cfg))
		cfg.Clients, cfg.FirstClient = limitComing/2, (2+i)*limitClients
		l.coming = append(l.coming, connect(t, cfg))
	}
	return l
}

// start starts the node.
func (l *limited) start(t *testing.T, binary string) {
	t.Helper()
	host := newLoopback()
	n := &Node{
		t: t, name: "limited", binary: binary, dir: t.TempDir(), to: record.NewRecorder(), addr: host.port(10_000), admin: host.port(10_100),
		env: []string{fmt.Sprintf("GOMEMLIMIT=%d", scenario.MemoryFor(report.Setup{Clients: limitClients + limitComing}))},
	}
	text := fmt.Sprintf("node: {name: %s}\nlistener: {address: %q}\nadmin: {address: %q}\nupstream: {addresses: [%q]}\nlog: {level: warn}\n",
		n.name, n.addr, n.admin, l.origin.Addr())
	if err := os.Mkdir(n.home(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.dir, n.name+".yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.stop)
	n.Start()
	l.node = n
}

// connect starts clients, and waits until they have everything.
func connect(t *testing.T, cfg fleet.Config) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r, err := f.Connect(ctx, 0, fleet.Synced); err != nil || !r.Done {
		t.Fatalf("%d clients connect: %+v, %v, %+v", cfg.Clients, r, err, f.Progress().Ends)
	}
	return f
}

// reconnects lets some clients reconnect, without versions, again and again until stop is
// called: a node that has no memory to spare refuses them.
func (l *limited) reconnects(t *testing.T) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var storms sync.WaitGroup
	for _, f := range l.coming {
		storms.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for {
				select {
				case <-ended:
					return
				default:
				}
				if r, err := f.Storm(ctx, fleet.Storm{Versions: "cold", Quiet: time.Millisecond}); err != nil || !r.Done {
					t.Errorf("clients reconnect: %+v, %v, %+v", r, err, f.Progress().Ends)
					return
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(ended)
		storms.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// changes makes one small change after the other, and waits until all clients have the
// last one on the streams that they had before.
func (l *limited) changes(t *testing.T) {
	t.Helper()
	change := content.Change{Kind: content.One, Type: content.EndpointURL}
	var before []map[string]fleet.End
	for _, f := range l.steady {
		before = append(before, f.Progress().Ends)
	}
	tick := time.NewTicker(limitPause)
	defer tick.Stop()
	var last drive.Changed
	for range limitChanges {
		var err error
		if last, err = l.origin.Change(change); err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, f := range l.steady {
		if r, err := f.Await(ctx, last.Revision, &change); err != nil || !r.Done {
			t.Errorf("the last change: %+v, %v", r, err)
		}
		for kind, e := range f.Progress().Ends {
			if n := e.Count - before[i][kind].Count; n > 0 {
				t.Errorf("%d streams or connections ended: %s, the first with %s", n, kind, e.First)
			}
		}
	}
}

// byMemory finds the counters of clients that the node refused or shed because memory was short.
var byMemory = regexp.MustCompile(`(?m)^xdsrelay_rejections_total\{reason="\w*memory_percent"[^}]*\} (\S+)$`)

func (l *limited) refusedNobody(t *testing.T) {
	t.Helper()
	page, err := l.node.get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range byMemory.FindAllStringSubmatch(page, -1) { // a counter that was never used is absent
		if n, err := strconv.ParseFloat(m[1], 64); err != nil || n > 0 {
			t.Errorf("%s clients were refused or shed because memory was short, expected none", m[1])
		}
	}
}
