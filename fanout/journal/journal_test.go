package journal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"xdsrelay/relay/resource"
)

var (
	start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	cds   = resource.TypeOf(resource.ClusterURL)
	eds   = resource.TypeOf(resource.EndpointURL)
)

func after(d time.Duration) time.Time { return start.Add(d) }

// TestJournal: what is recorded is read again, and answers and waits are in the records that they are
// about.
func TestJournal(t *testing.T) {
	other := resource.TypeOf("type.googleapis.com/example.Other")
	const digest = "0123456789abcdef0123456789abcdef"
	var j Journal
	j.Connect(start, 3, 4096)
	j.Send(after(time.Second), cds, digest, 12, 4096)
	j.Send(after(2*time.Second), other, "2026-11-27T11:00:00Z/abcdefghijklmnopqrstuvwxyz/17", 300, 4096)
	j.Answer(after(2*time.Second+7*time.Millisecond), cds, Accepted)
	j.Answer(after(2*time.Minute), other, Refused)
	j.Reject(after(2*time.Minute), other, 3, strings.Repeat("é", 100), 4096)
	j.Wait(after(3*time.Minute), eds, 5, 4096)
	j.Wait(after(3*time.Minute+MinWait-time.Millisecond), eds, 6, 4096) // the first is too short
	j.Wait(after(4*time.Minute), eds, 0, 4096)
	j.Wait(after(5*time.Minute), eds, 7, 4096)
	j.Resend(after(5*time.Minute), cds, 4096)
	j.Disconnect(after(6*time.Minute), Kicked, "10.0.0.1:1234", "why", 4096)
	var got []string
	for _, e := range j.Events() {
		got = append(got, fmt.Sprint(e.At.UTC().Sub(start), " ", e.Kind, e.Variant, " ", resource.TypeOf(e.Type).Order, " ", e.Version, " ", e.Resources, e.Answer, " ", e.Took, e.Ongoing, e.Reason, " ", e.Code, len(e.Text), " ", e.End, e.Peer))
	}
	want := strings.TrimSpace(`
0s 1 3 7  0 0 0s false 0 0 0 closed by the client
1s 2 0 0 0123456789abcdef0123456789abcdef 12 1 1.007s false 0 0 0 closed by the client
2s 2 0 7 2026-11-27T11:00:0…lmnopqrstuvwxyz/17 300 2 1m58s false 0 0 0 closed by the client
2m0s 3 0 7  0 0 0s false 0 3 119 closed by the client
3m0.999s 4 0 1  0 0 59.001s false 6 0 0 closed by the client
5m0s 4 0 1  0 0 0s true 7 0 0 closed by the client
5m0s 5 0 0  0 0 0s false 0 0 0 closed by the client
6m0s 6 0 7  0 0 0s false 0 0 3 kicked10.0.0.1:1234`)
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	j.EndWaits(after(7 * time.Minute))
	if e := j.Events()[5]; e.Ongoing || e.Took != 2*time.Minute {
		t.Errorf("a wait has not ended: %+v", e)
	}
}

// TestJournalIsBounded: a journal keeps the newest events within its bytes, grows in steps, and at its
// full size allocates nothing.
func TestJournalIsBounded(t *testing.T) {
	const most = 512
	var j Journal
	sizes := map[int]bool{}
	n := 0
	deliver := func() {
		at := after(time.Duration(n) * time.Second)
		j.Wait(at, cds, 5, most)
		j.Wait(at, cds, 0, most)
		j.Send(at, cds, fmt.Sprintf("%032x", n), n, most)
		j.Answer(at.Add(time.Millisecond), cds, Accepted)
		n++
	}
	for range 100 {
		deliver()
		if sizes[j.Size()] = true; j.Size() > most || len(j.b) > most {
			t.Fatalf("%d of %d bytes", j.Size(), most)
		}
	}
	all := j.Events()
	if last := all[len(all)-1]; len(all) < 14 || last.Resources != 99 || last.Answer != Accepted {
		t.Errorf("%d events, the last is %+v", len(all), last)
	}
	if len(sizes) < 4 || j.Size() != most {
		t.Errorf("sizes: %v", sizes)
	}
	version := strings.Repeat("0f", 16)
	if got := testing.AllocsPerRun(100, func() {
		j.Send(start, cds, version, 1, most)
		j.Answer(start, cds, Accepted)
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// FuzzDecode: any bytes are decoded without a panic, and what is recorded is decoded completely.
func FuzzDecode(f *testing.F) {
	var j Journal
	j.Connect(start, 1, 4096)
	j.Send(start, cds, "v1", 3, 4096)
	j.Reject(start, cds, 3, "no", 4096)
	j.Wait(start, eds, 5, 4096)
	j.Disconnect(start, Failed, "10.0.0.1:1", "error", 4096)
	f.Add(j.Bytes(), "v", "text", 512)
	f.Fuzz(func(t *testing.T, raw []byte, version, text string, most int) {
		Decode(raw)
		most = Least + (most&0xfff+0x1000)%0x1000
		var j Journal
		for range 20 {
			j.Connect(start, 1, most)
			j.Send(start, resource.TypeOf(text), version, most, most)
			j.Answer(start, resource.TypeOf(text), Refused)
			j.Reject(start, resource.TypeOf(version), 3, text, most)
			j.Wait(start, resource.TypeOf(version), 5, most)
			j.Disconnect(start, Failed, version, text, most)
			n := 0
			for i := 0; i < len(j.b); i += int(j.b[i]) {
				n++
			}
			if got := len(j.Events()); got != n || len(j.b) > most {
				t.Fatalf("%d of %d records are decoded, %d bytes of %d", got, n, len(j.b), most)
			}
		}
	})
}
