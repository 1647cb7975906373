package journal

import (
	"fmt"
	"testing"
	"time"
)

func journalAt(at time.Time) (j Journal) {
	j.Connect(at, 1, 512)
	j.Send(at.Add(time.Millisecond), cds, "v1", 1, 512)
	return j
}

// TestDeparted: the events of a client are found after it has left, are its own again when it is back
// from the same account, and end after some time.
func TestDeparted(t *testing.T) {
	d := NewDeparted(512)
	who := Identity{"10.0.0.1", "envoy-1", "shop"}
	d.Add(who, journalAt(start), start)
	d.Add(who, journalAt(start.Add(-time.Second)), start) // of another of its streams
	left := d.Find("envoy-1", start)
	if len(left) != 1 || len(left[0].Events) != 4 || !left[0].Events[0].At.Before(left[0].Events[3].At) {
		t.Fatalf("found %+v", left)
	}
	stranger := who
	stranger.Owner = "10.0.0.2"
	if j := d.Take(stranger, start); !j.Empty() {
		t.Error("another account has taken the events")
	}
	if j := d.Take(who, start.Add(time.Minute)); len(j.Events()) != 4 || d.bytes != 0 || len(d.owners)+len(d.ranked) > 0 {
		t.Errorf("taken %d events, left %d bytes", len(j.Events()), d.bytes)
	}
	d.Add(who, journalAt(start), start)
	if late := start.Add(KeepFor + time.Second); len(d.Find("envoy-1", late)) > 0 {
		t.Error("the events do not end")
	}
	d.Add(stranger, journalAt(start), start.Add(2*KeepFor))
	if clients, _ := d.Size(); clients != 1 {
		t.Errorf("%d clients are kept, the first one is too old", clients)
	}
}

// TestDepartedIsFair: an account with many names loses its own oldest events, and others none.
func TestDepartedIsFair(t *testing.T) {
	d := NewDeparted(512)
	d.bound = 64 << 10
	for i := range 50 {
		d.Add(Identity{fmt.Sprint("10.0.0.", i%10), fmt.Sprint("good-", i), "shop"}, journalAt(start), start)
	}
	for i := range 5000 {
		d.Add(Identity{"192.0.2.1", fmt.Sprint("bad-", i), "shop"}, journalAt(start), start)
		if d.bytes > d.bound {
			t.Fatalf("%d of %d bytes", d.bytes, d.bound)
		}
	}
	for i := range 50 {
		if len(d.Find(fmt.Sprint("good-", i), start)) == 0 {
			t.Errorf("client %d was pushed out", i)
		}
	}
	if len(d.Find("bad-0", start)) > 0 || len(d.Find("bad-4999", start)) == 0 {
		t.Error("the account does not lose its oldest first")
	}
	sum := 0
	for _, e := range d.entries {
		sum += e.size()
	}
	if sum != d.bytes {
		t.Errorf("%d bytes are counted, %d are there", d.bytes, sum)
	}
}
