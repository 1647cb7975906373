package hostile

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"xdsrelay/relay/xdstest"
)

// footprint is what a node takes, and what it knows.
type footprint struct {
	goroutines int
	heap       int64 // live bytes
	rss        int64 // bytes; only of a process of its own
	changes    int64 // that the good clients remember in this process, if they are in it
	at         int64 // how many changes have reached the good clients
	streams    int
	keys       int   // with clients
	idle       int   // keys without
	upstream   int64 // streams that the origin has
	names      int   // asked of the origin, in all keys with clients
}

// What a node may take more after an attack than before: what changes of themselves,
// like pools, timers and the buckets of maps.
const (
	spareGoroutines = 12
	spareRSS        = 40 << 20
	// What good clients remember of a change, to hold what comes later against it. The
	// faster the machine, the more changes there are in an attack.
	remembered = 96 << 10
)

// spareHeap is that of what lives. A node of its own is compared with how it was before
// the first attack, and has learnt and cached some things since.
func spareHeap() int64 { return size[int64](6<<20, 16<<20) }

// footprint measures after a garbage collection.
func (s *stage) footprint(t *testing.T) footprint {
	t.Helper()
	if s.process != nil {
		if err := s.process.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	// Read right after the collection: what the good clients cause meanwhile is not live.
	heap := metric(t, s.get(t, "/debug/pprof/heap?gc=1&debug=1"), "# HeapAlloc =")
	metrics := s.get(t, "/metrics")
	f := footprint{
		goroutines: int(metric(t, metrics, "go_goroutines")), heap: int64(heap),
		upstream: s.origin.Stats().Streams, at: s.changes.Load(),
	}
	if s.process == nil {
		f.changes = s.changes.Load()
	} else {
		f.rss = int64(metric(t, metrics, "process_resident_memory_bytes"))
	}
	var keys []struct {
		Clients int
		Idle    bool
		Tables  []struct{ Names int }
	}
	var streams []struct{ Variant string }
	s.ask(t, "/debug/keys?format=json", &keys)
	s.ask(t, "/debug/streams?format=json", &streams)
	for _, st := range streams {
		if st.Variant != "rest" { // who has polled is remembered for a while, within bounds
			f.streams++
		}
	}
	for _, k := range keys {
		if k.Clients == 0 {
			f.idle++
			continue
		}
		f.keys++
		for _, table := range k.Tables {
			f.names += table.Names
		}
	}
	return f
}

// live is how a node is when the attacker's streams are gone, after collections that empty
// what is pooled.
func (s *stage) live(t *testing.T) (now footprint) {
	t.Helper()
	xdstest.Eventually(t, "the attacker's streams to be gone", func() bool {
		now = s.footprint(t)
		return now.streams == s.before.streams && now.keys == s.before.keys || s.dead()
	})
	for range 2 {
		if next := s.footprint(t); next.heap < now.heap {
			now = next
		}
	}
	return now
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %.1f MiB live, %.1f MiB resident, %d streams, %d keys and %d idle, %d upstream streams, %d names",
		f.goroutines, float64(f.heap)/(1<<20), float64(f.rss)/(1<<20), f.streams, f.keys, f.idle, f.upstream, f.names)
}

// over says in what f exceeds what is allowed after an attack; empty for nothing.
func (f footprint) over(before footprint) string {
	var over []string
	check := func(ok bool, what string) {
		if !ok {
			over = append(over, what)
		}
	}
	check(f.goroutines <= before.goroutines+spareGoroutines, "goroutines")
	check(f.heap <= before.heap+spareHeap()+remembered*(f.changes-before.changes), "live heap")
	check(f.rss <= before.rss+spareRSS, "resident memory")
	check(f.streams == before.streams, "streams")
	check(f.keys == before.keys, "keys")
	check(f.upstream == before.upstream, "upstream streams")
	check(f.names == before.names, "names")
	return strings.Join(over, ", ")
}

// recovers waits until the node is as it was before the attack, and returns how it is.
func (s *stage) recovers(t *testing.T, attack string) (now footprint) {
	t.Helper()
	limit := time.Now().Add(xdstest.Patience / 4)
	for now = s.footprint(t); now.over(s.before) != ""; now = s.footprint(t) {
		if time.Now().After(limit) {
			t.Errorf("after %s there is more than before of: %s\nbefore: %v\nnow:    %v", attack, now.over(s.before), s.before, now)
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if text := s.get(t, "/debug/check"); text != "ok\n" {
		t.Errorf("after %s the node's state contradicts itself: %s", attack, text)
	}
	t.Logf("after %s: %d changes have reached everybody; %v", attack, s.changes.Load(), now)
	return now
}

// keepsLittle holds what a node keeps of an attacker's streams while they live. It is
// seen in a process of its own only: in the test's there is the attacker, too.
func (s *stage) keepsLittle(t *testing.T, streams int) {
	t.Helper()
	if s.process == nil {
		return
	}
	const each = 48 << 10 // gRPC's and the relay's parts
	xdstest.Eventually(t, fmt.Sprintf("%d streams to hold little", streams), func() bool {
		now := s.footprint(t)
		if now.heap <= s.before.heap+int64(streams)*each+spareHeap() {
			return true
		}
		t.Logf("before %v, now %v", s.before, now)
		return false
	})
}

// get asks the admin port.
func (s *stage) get(t *testing.T, path string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: s.operators}, Timeout: xdstest.Patience}
	scheme := "http://"
	if s.operators != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+s.Admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.operators != nil {
		req.Header.Set("Authorization", "Bearer "+operatorToken)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *stage) ask(t *testing.T, path string, to any) {
	t.Helper()
	if text := s.get(t, path); json.Unmarshal([]byte(text), to) != nil {
		t.Fatalf("%s answers %q", path, text)
	}
}

// metric is a value of the metrics page, or of another with one in a line.
func metric(t *testing.T, page, name string) float64 {
	t.Helper()
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return n
		}
	}
	t.Fatalf("/metrics lacks %s", name)
	return 0
}
