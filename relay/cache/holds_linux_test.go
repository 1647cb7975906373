//go:build !race

package cache

import (
	"errors"
	"flag"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xdsrelay/relay/resource"
)

// hold is one time that the lock of a table is held: its CPU time, and who releases the lock.
type hold struct {
	took time.Duration
	by   string
}

// holdsOf are the times that op holds the lock of a table, in order, in CPU time of its thread: so
// other processes do not matter, but for the caches and the memory that they use.
func holdsOf(table *Table, op func()) (all []hold) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own := unix.Gettid()
	clock := int32(^own<<3 | 6) // of this thread; see pthread_getcpuclockid
	var since time.Duration
	depth := 0
	table.mu.RWMutex.Lock()
	table.mu.watch = func(held bool) {
		if unix.Gettid() != own {
			return // a timer's
		}
		var at unix.Timespec
		if err := unix.ClockGettime(clock, &at); err != nil {
			panic(err)
		}
		now := time.Duration(at.Nano())
		if held {
			if depth++; depth == 1 {
				since = now
			}
		} else if depth--; depth == 0 {
			h := hold{took: now - since}
			if h.took > mostHeld/5 {
				h.by = caller()
			}
			all = append(all, h)
		}
	}
	table.mu.RWMutex.Unlock()
	op()
	table.mu.RWMutex.Lock()
	table.mu.watch = nil
	table.mu.RWMutex.Unlock()
	return all
}

// longest is the longest of the holds that all runs have, each as in the run where it was shortest:
// the machine may slow down any hold of a run, but not the same one in all runs.
func longest(runs [][]hold) (most hold) {
	for i := range runs[0] {
		least := runs[0][i]
		for _, run := range runs[1:] {
			if i >= len(run) {
				least = hold{}
			} else if run[i].took < least.took {
				least = run[i]
			}
		}
		if least.took > most.took {
			most = least
		}
	}
	return most
}

// caller returns the functions that release a lock.
func caller() string {
	var stack [8]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(3, stack[:])])
	var names []string
	for f, more := frames.Next(); more; f, more = frames.Next() {
		names = append(names, path.Base(f.Function))
	}
	return strings.Join(names, " < ")
}

var measureHolds = flag.Bool("holds", false, "measure for how long locks are held with very many names")

const (
	mostNames = 200_000 // of a client, by default
	mostHeld  = 5 * time.Millisecond
)

// TestLongestHold: work for a client with the maximum number of names keeps others waiting for the
// lock of the table for at most 5 ms.
func TestLongestHold(t *testing.T) {
	if !*measureHolds {
		t.Skip("takes a minute: make hostile-defaults")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // else an allocation is charged with garbage collection
	names := make([]string, mostNames)
	for i := range names {
		names[i] = fmt.Sprintf("huge-%07d", i)
	}
	for _, one := range slices.Concat(holdsOfDemand, holdsOfNamesThatEnd, holdsOfOrigin, holdsOfClients, holdsOfOperators) {
		t.Run(one.what, func(t *testing.T) {
			var runs [][]hold
			for range 5 {
				h := newHuge(t, names, one.tight)
				op := one.op(h)
				runtime.GC()
				runs = append(runs, holdsOf(h.table, op))
				h.cache.Close()
				if longest(runs).took <= mostHeld {
					return
				}
			}
			most := longest(runs)
			t.Errorf("others wait %s for a lock, expected at most %s: %s", most.took, mostHeld, most.by)
		})
	}
}

// huge is a table with a client of very many names.
type huge struct {
	*world
	table  *Table
	client Watcher
	names  []string
}

// newHuge returns one whose client has no interest yet. With tight its names fill the bound.
func newHuge(t *testing.T, names []string, tight bool) *huge {
	size := 16 << 20
	if tight {
		size = len(names) * (len(names[0]) + nameOverhead)
	}
	w := newWorld(t, Config{Linger: time.Hour, LingeringBytes: 1 << 40, Wake: func([]*Subscription) {}, Streams: []OriginStream{{MaxNames: size}}})
	return &huge{world: w, table: w.group.Table(endpoints), names: names}
}

func (h *huge) want() {
	if done := h.table.Edit(&h.client, Edit{Add: h.names}); len(done.Added) != len(h.names) {
		h.t.Fatalf("%d names are added: %v", len(done.Added), done.Over)
	}
}

func (h *huge) ask() { h.feed.TakeDemand(true, false) }

// serve makes all names those of resources.
func (h *huge) serve() {
	h.want()
	h.ask()
	rs := make([]*resource.Resource, len(h.names))
	for i, n := range h.names {
		rs[i] = versioned(n, "content", "1")
	}
	h.feed.Apply(Update{Type: endpoints, Resources: rs, Differences: true})
}

// deny makes all names absent.
func (h *huge) deny() {
	h.want()
	h.ask()
	h.feed.Absent(endpoints, h.names)
}

func (h *huge) leave() { h.table.Leave(&h.client) }

// expire ends all linger times.
func (h *huge) expire() {
	h.table.expire(time.Now().Add(2*time.Hour), make(map[*Subscription]struct{}))
}

// action is something that happens to a huge client; op prepares it.
type action struct {
	what  string
	tight bool
	op    func(*huge) func()
}

var holdsOfDemand = []action{
	{what: "names are wanted", op: func(h *huge) func() { return h.want }},
	{what: "changes for a delta control plane", op: func(h *huge) func() {
		h.want()
		return func() { h.feed.TakeDemand(false, false) }
	}},
	{what: "changes for a SotW control plane", op: func(h *huge) func() {
		h.want()
		return func() { h.feed.TakeDemand(false, true) }
	}},
	{what: "everything for a new stream", op: func(h *huge) func() {
		h.serve()
		return func() { h.feed.TakeDemand(true, true) }
	}},
	{what: "names are unsubscribed", op: func(h *huge) func() {
		h.serve()
		h.ask()
		h.leave()
		h.expire()
		return func() { h.feed.TakeDemand(false, true) }
	}},
	{what: "names are shed", op: func(h *huge) func() {
		h.want()
		h.ask()
		return func() { h.feed.Shed(endpoints, "too many") }
	}},
	{what: "lingering names make room", tight: true, op: func(h *huge) func() {
		h.want()
		h.ask()
		h.leave()
		return func() { h.table.Edit(&Watcher{}, Edit{Add: []string{"few"}}) }
	}},
	{what: "names of a client make room", tight: true, op: func(h *huge) func() {
		h.want()
		return func() { h.table.Edit(&Watcher{}, Edit{Add: []string{"few"}}) }
	}},
	{what: "no names make room", tight: true, op: func(h *huge) func() {
		h.serve()
		return func() { h.table.Edit(&Watcher{}, Edit{Add: []string{"few"}}) }
	}},
}

var holdsOfNamesThatEnd = []action{
	{what: "a client leaves", op: func(h *huge) func() {
		h.serve()
		return h.leave
	}},
	{what: "names linger", op: func(h *huge) func() {
		h.want()
		h.ask()
		h.leave()
		return h.group.expireOnce
	}},
	{what: "names expire", op: func(h *huge) func() {
		h.want()
		h.ask()
		h.leave()
		return h.expire
	}},
	{what: "names expire of which there were errors", op: func(h *huge) func() {
		h.want()
		h.ask()
		h.feed.Shed(endpoints, "too many")
		h.leave()
		return h.expire
	}},
	{what: "names with resources expire", op: func(h *huge) func() {
		h.serve()
		h.leave()
		return h.expire
	}},
	{what: "half of the names expire", op: func(h *huge) func() {
		h.serve()
		h.table.Edit(&h.client, Edit{Remove: h.names[:mostNames/2]})
		return h.expire
	}},
	{what: "the wildcard expires", op: func(h *huge) func() {
		h.serve()
		h.table.Edit(&h.client, Edit{AddWildcard: true})
		h.leave()
		return h.expire
	}},
	{what: "a key becomes idle", op: func(h *huge) func() {
		h.want()
		h.ask()
		h.leave()
		h.cache.Leave(h.group)
		return func() { h.cache.retire(h.group) }
	}},
}

var holdsOfOrigin = []action{
	{what: "the control plane answers nothing", op: func(h *huge) func() {
		h.want()
		h.ask()
		return func() { h.feed.Apply(Update{Type: endpoints}) }
	}},
	{what: "names are absent", op: func(h *huge) func() {
		h.want()
		h.ask()
		return func() { h.feed.Absent(endpoints, h.names) }
	}},
	{what: "what the control plane owes", op: func(h *huge) func() {
		h.deny()
		return func() { h.feed.Waiting(nil); h.feed.Missing(endpoints, h.names) }
	}},
	{what: "versions for a new stream", op: func(h *huge) func() {
		h.serve()
		return func() { h.feed.Held(endpoints); h.feed.SentVersions(endpoints) }
	}},
	{what: "the control plane cannot be reached, and is back", op: func(h *huge) func() {
		h.want()
		return func() {
			h.feed.Down(errors.New("gone"))
			h.table.GiveUp(&h.client)
			h.feed.Up()
		}
	}},
}

var holdsOfClients = []action{
	{what: "where a client stands", op: func(h *huge) func() {
		h.serve()
		var other Watcher
		others := make([]string, mostNames)
		for i := range others {
			others[i] = fmt.Sprintf("other-%07d", i)
		}
		h.table.Edit(&other, Edit{Add: others}) // which the control plane does not answer
		h.table.Edit(&h.client, Edit{Add: []string{"one"}})
		return func() { h.table.State(&h.client) }
	}},
	{what: "a client holds other versions", op: func(h *huge) func() {
		h.serve()
		held := make([]resource.Held, len(h.names))
		for i, n := range h.names {
			held[i] = resource.Held{Name: n, Version: "2"}
		}
		return func() { h.table.Reconcile(&h.client, nil, held, false); h.table.Gone(&h.client, nil, held) }
	}},
	{what: "a client holds nothing", op: func(h *huge) func() {
		h.deny()
		return func() { h.table.Reconcile(&h.client, nil, nil, false) }
	}},
	{what: "a client replaces its names", op: func(h *huge) func() {
		h.want()
		return func() {
			h.table.Omitted(&h.client, false, h.names[1:])
			h.table.Replace(&h.client, false, h.names[1:])
		}
	}},
	{what: "one name more where there are aliases", op: func(h *huge) func() {
		h.serve()
		h.table.Edit(&Watcher{}, Edit{Add: []string{"a"}})
		h.apply(endpoints, aliased("a", "content", "b"))
		return func() { h.table.Edit(&h.client, Edit{Add: []string{"b"}}) }
	}},
	{what: "a client joins and leaves the wildcard", op: func(h *huge) func() {
		h.serve()
		return func() {
			h.table.Edit(&h.client, Edit{AddWildcard: true})
			h.table.Edit(&h.client, Edit{RemoveWildcard: true})
		}
	}},
	{what: "another node is sent errors, and sends them", op: func(h *huge) func() {
		h.want()
		h.ask()
		h.feed.Shed(endpoints, "too many")
		return func() {
			var down, up SharedErrors
			sent := 0
			for more := true; more; more = down.More() || up.More() {
				sent += len(h.table.Errored(&h.client, &down).Names) + len(h.feed.Errored(endpoints, &up).Names)
			}
			h.table.AskErrored(&down, slices.Values(h.names))
			for more := true; more; more = down.More() {
				errored := h.table.Errored(&h.client, &down)
				h.table.Learn(errored)
				sent += len(errored.Names)
			}
			if n, _ := h.table.remembers(""); sent == 0 || sent != 3*n {
				h.t.Errorf("%d names were sent", sent)
			}
		}
	}},
	{what: "a client moves to a private group", op: func(h *huge) func() {
		h.serve()
		return func() { h.table.Wanted(&h.client); h.table.HeldAt(&h.client, Position{Gen: 1}) }
	}},
}

var holdsOfOperators = []action{
	{what: "an operator looks at names", op: func(h *huge) func() {
		h.want()
		return h.look
	}},
	{what: "an operator looks at names that do not exist", op: func(h *huge) func() {
		h.deny()
		return h.look
	}},
	{what: "an operator looks at resources", op: func(h *huge) func() {
		h.serve()
		return h.look
	}},
	{what: "an operator looks at a client of everything", op: func(h *huge) func() {
		h.serve()
		h.table.Edit(&h.client, Edit{AddWildcard: true})
		return h.look
	}},
}

// look reads what operators may see.
func (h *huge) look() {
	h.table.NameInfos()
	s := h.table.Subscription(&h.client)
	s.Sights(nil)
	s.Lacks(0)
	s.Missing()
	h.cache.GroupInfos()
}
