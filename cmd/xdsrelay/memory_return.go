package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"xdsrelay/relay/pause"
)

// memoryReturn decides when garbage and free memory are returned to the system. By itself the Go
// runtime collects only when the heap has doubled, or after two minutes, and then returns what is
// free over minutes: after a burst, a process at rest would keep half as much again as it needs. It
// is pure: it neither measures nor acts.
type memoryReturn struct {
	allocated [quietLooks]uint64 // at the last looks, in turn
	looks     int                // so far
	worth     uint64             // how many times as much as usual has to be there; 0 at first
	next      time.Time
	least     uint64 // the least that was resident since memory was returned; 0 at first
	rested    int    // looks at rest in a row
	wait      int    // how many more of these than the first one a return needs
	// returned is when memory was last returned; zero once the process has allocated much again.
	returned time.Time
}

// memoryUse is what a look finds, in bytes.
type memoryUse struct {
	inUse     uint64 // what a collection would leave
	allocated uint64 // of the heap, since the start
	excess    uint64 // resident memory that is free, or garbage since the last collection
	resident  uint64 // heap and stacks
}

const (
	// lookInterval is the time between two looks. The process is at rest if it has allocated little
	// within quietLooks of them: 3 s, so that nothing is collected between updates that follow each other.
	lookInterval = 500 * time.Millisecond
	quietLooks   = 6
	// quietShare: at rest, less than one in quietShare of the memory in use is allocated between two
	// looks, in the mean. Keepalive pings of idle clients take less.
	quietShare = 256
	// excessShare: memory is returned if it is one in excessShare of that in use, and at least
	// leastExcess. What became resident since the last time counts as well: a collection in the middle
	// of a burst counts as in use what is garbage a moment later, and stacks that have grown.
	excessShare = 16
	leastExcess = 4 << 20
	// restWorth: until as much is allocated at once after a return, there has to be restWorth times as
	// much for the next one. What an idle node allocates, mostly for the heartbeats of other nodes and the
	// samples of the live page, is not worth two collections each 20 s: that was a fifth of its CPU time.
	restWorth = 4
	// soonAgain: memory that the process allocates again so soon was returned in vain. Then the next
	// return waits for twice as long a rest as the last one, and for longestWait at most: with a change
	// every few seconds, each would begin with buffers for all clients, and a collection.
	soonAgain   = time.Minute
	longestWait = int(soonAgain / lookInterval)
	// returnPauses: nothing is returned for returnPauses times the CPU time that it took before, on
	// each processor, so that it takes about 4 % of them at most. It takes less: as much must have
	// been allocated again, and that slowly.
	returnPauses = 25
)

// step reports whether memory is to be returned now.
func (m *memoryReturn) step(now time.Time, u memoryUse) bool {
	at, known, enough := m.looks%quietLooks, m.looks >= quietLooks, max(u.inUse/excessShare, leastExcess)
	recent := u.allocated - m.allocated[at]
	m.allocated[at] = u.allocated
	m.looks++
	if !known || recent > enough {
		m.worth = 1
		m.busyAgain(now)
	}
	m.least = min(m.least, u.resident)
	if m.rested++; !known || recent > quietLooks*(u.inUse/quietShare+64<<10) {
		m.rested = 0
	}
	return m.rested > m.wait && max(u.excess, u.resident-m.least) >= m.worth*enough && !now.Before(m.next)
}

// busyAgain records that the process has allocated much at once.
func (m *memoryReturn) busyAgain(now time.Time) {
	switch {
	case m.returned.IsZero():
	case now.Sub(m.returned) < soonAgain:
		m.wait = min(max(2*m.wait, quietLooks), longestWait)
	default:
		m.wait = 0
	}
	m.returned = time.Time{}
}

// took records that memory was returned, which took so much CPU time, on a number of processors, and
// left so many bytes resident.
func (m *memoryReturn) took(now time.Time, cpu time.Duration, processors int, resident uint64) {
	m.next, m.least, m.worth = now.Add(returnPauses*cpu/time.Duration(processors)), resident, restWorth
	m.returned = now
}

// returnMemory returns memory to the system whenever the process is at rest, until ctx ends.
func returnMemory(ctx context.Context) {
	var m memoryReturn
	samples := useSamples()
	for pause.For(ctx, pause.Next(lookInterval)) {
		if !m.step(time.Now(), readUse(samples)) {
			continue
		}
		before := collectorTime()
		runtime.GC() // what pools keep survives the first collection, and stacks shrink by half in each
		debug.FreeOSMemory()
		m.took(time.Now(), collectorTime()-before, runtime.GOMAXPROCS(0), readUse(samples).resident)
	}
}

// useSamples are the measurements of the runtime that readUse reads.
func useSamples() []metrics.Sample {
	return []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
}

func readUse(samples []metrics.Sample) memoryUse {
	metrics.Read(samples)
	var n [5]uint64
	for i := range samples {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			n[i] = samples[i].Value.Uint64()
		}
	}
	allocated, live, objects, free, stacks := n[0], n[1], n[2], n[3], n[4]
	return memoryUse{
		inUse: live + stacks, allocated: allocated,
		excess: objects - min(objects, live) + free, resident: objects + free + stacks,
	}
}

// collectorTime returns the CPU time that collections have taken so far.
func collectorTime() time.Duration {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return time.Duration(sample[0].Value.Float64() * float64(time.Second))
}
