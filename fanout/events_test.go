package fanout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/fanout/journal"
)

// recorded are the events of the usual client, one per line.
func (w *world) recorded() (lines []string) {
	all, _ := w.srv.Events("test-client")
	for _, c := range all {
		for _, e := range c.Events {
			lines = append(lines, strings.TrimSpace(fmt.Sprint(e.Kind, " ", e.Variant, e.Reason, e.Type[strings.LastIndexByte(e.Type, '.')+1:], " ", e.Version, " ", e.Resources, " ", e.Answer, " ", e.Text)))
		}
	}
	return lines
}

// TestEvents: what becomes of a client is recorded: responses and their answers, NACKs, waits that
// last, and the end of its stream. It is found after that, and is continued by the client's next
// stream.
func TestEvents(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t, recording)
		variant := map[bool]string{true: "delta", false: "sotw"}[delta]
		s := w.open(delta)
		s.Subscribe(cds)
		w.asked(cds, "*")
		time.Sleep(3 * time.Second) //nolint:forbidigo // virtual time
		w.serve("v1", cds, cluster("a", 1))
		s.Ack(has(t, s.Recv(t), "a"))
		w.settled(cds, Synced)
		w.serve("v2", cds, cluster("a", 2))
		s.Nack(has(t, s.Recv(t), "a"), "no such filter")
		w.settled(cds, Nacked)
		want := []string{
			"1 " + variant + "  0 0", "4 control plane has not answeredCluster  0 0", "2 Cluster v1 1 1", "2 Cluster v2 1 2", "3 Cluster  0 0 no such filter",
		}
		if got := w.recorded(); !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if took := w.events(journal.Waited)[0].Took; took < 2*time.Second || took > 4*time.Second {
			t.Errorf("the wait took %s", took)
		}
		s.Cancel()
		synctest.Wait()
		if clients, bytes := w.srv.left.Size(); clients != 1 || bytes > 1024 {
			t.Errorf("%d clients have left, with %d bytes", clients, bytes)
		}
		if got := w.recorded(); !slices.Equal(got, append(want, "6   0 0")) {
			t.Errorf("after it has left:\n%s", strings.Join(got, "\n"))
		}
		again := w.open(delta)
		again.Subscribe(cds)
		again.Recv(t)
		if got := w.recorded(); len(got) != len(want)+3 || got[0] != want[0] {
			t.Errorf("after it is back:\n%s", strings.Join(got, "\n"))
		}
		if clients, _ := w.srv.left.Size(); clients != 0 {
			t.Errorf("%d clients have left", clients)
		}
	})
}

// TestEventsCostNoAllocations: a delivery and its ACK cost no allocation for the events, once there
// is a journal of full size, and none are kept if they are off.
func TestEventsCostNoAllocations(t *testing.T) {
	for _, size := range []int{0, 512} {
		f := newFleet(t, 1, 10, true, func(c *Config) { c.EventBytes = size })
		s, ts := f.streams[0], f.streams[0].types[0]
		b := &body{sentVersion: "0123456789abcdef0123456789abcdef", resources: 3}
		deliver := func() {
			s.mu.Lock()
			s.sentEventLocked(ts, b, time.Now())
			s.journal.Answer(time.Now(), ts.table.Type, journal.Accepted)
			s.waitsChangedLocked()
			s.mu.Unlock()
		}
		for range 40 {
			deliver()
		}
		if got := testing.AllocsPerRun(100, deliver); got > 0 {
			t.Errorf("%v allocations with %d bytes", got, size)
		}
		if n := s.journal.Size(); n != size {
			t.Errorf("the journal has %d bytes, expected %d", n, size)
		}
	}
}
