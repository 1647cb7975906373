package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
)

// virtual runs f in virtual time with a rig over w, with the default times.
func virtual(t *testing.T, delta bool, w *wire, f func(r *rig)) {
	t.Helper()
	lingering(t, delta, time.Minute, w, f)
}

// lingering is virtual with a linger time of names; negative for none.
func lingering(t *testing.T, delta bool, linger time.Duration, w *wire, f func(r *rig)) {
	t.Helper()
	cp, err := newControlPlane(ControlPlaneConfig{Addresses: []string{"nowhere"}, Delta: delta},
		func(string, *ControlPlaneConfig) (channel, error) { return w, nil })
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOf(t, cp, linger)
	f(r)
	r.cache.Close()
}

// TestBackoffGrows: C13: streams that end without a response are retried after 1 s, then after 1.6
// times as long each, ±20 %, up to 30 s; one response resets the backoff.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streams, answerAt := 0, 15
		w := newWire(func(s *wireStream) error {
			s.recv()
			if streams++; streams == answerAt {
				s.respond("a")
			}
			return status.Error(codes.Unavailable, "no")
		})
		virtual(t, false, w, func(r *rig) {
			r.join("k").want(cds, "a")
			time.Sleep(time.Hour) //nolint:forbidigo // virtual time
			opens := w.opens()
			if len(opens) < answerAt+2 {
				t.Fatalf("%d streams in an hour", len(opens))
			}
			for i := 1; i < answerAt; i++ {
				want := math.Min(math.Pow(1.6, float64(i-1)), 30)
				if gap := opens[i].Sub(opens[i-1]).Seconds(); gap < 0.79*want || gap > 1.21*want {
					t.Errorf("gap %d is %.2f s, expected %.2f s ±20 %%", i, gap, want)
				}
			}
			// After a response: at once, but no faster than the shortest pause.
			if gap := opens[answerAt].Sub(opens[answerAt-1]); gap > time.Second+maxSpread {
				t.Errorf("after an answer: %v", gap)
			}
			if gap := opens[answerAt+1].Sub(opens[answerAt]).Seconds(); gap < 0.79 || gap > 1.21 {
				t.Errorf("the pause after that is %.2f s, expected the first one again", gap)
			}
		})
	})
}

// TestReturnIsSharedByKeys: when a server accepts a stream after it accepted none, waiting keys do
// not complete their backoff: all reconnect soon after the first, and not at the same moment.
func TestReturnIsSharedByKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 200
		var serving atomic.Bool
		var mu sync.Mutex
		var back []time.Time
		w := newWire(func(s *wireStream) error {
			s.recv()
			if !serving.Load() {
				return status.Error(codes.Unavailable, "no")
			}
			mu.Lock()
			back = append(back, time.Now())
			mu.Unlock()
			s.respond("a")
			<-s.ctx.Done()
			return nil
		})
		virtual(t, false, w, func(r *rig) {
			for i := range keys {
				r.join(fmt.Sprint("k", i)).want(cds, "a")
			}
			time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
			serving.Store(true)
			time.Sleep(2 * time.Minute) //nolint:forbidigo // virtual time
			mu.Lock()
			defer mu.Unlock()
			if len(back) != keys {
				t.Fatalf("%d of %d keys are back", len(back), keys)
			}
			if took := back[keys-1].Sub(back[0]); took > 2*maxSpread || took < minSpread {
				t.Errorf("the last key came back %v after the first, expected %v to %v", took, minSpread, 2*maxSpread)
			}
		})
	})
}

// TestPace: C13 on its own: what resets the backoff and what does not.
func TestPace(t *testing.T) {
	cfg := Backoff{Jitter: -1, Initial: time.Second, Max: 4 * time.Second, Multiplier: 2}
	if err := cfg.setDefaults(); err != nil {
		t.Fatal(err)
	}
	p := newPace(cfg, func() time.Duration { return 30 * time.Millisecond })
	tooLarge := status.Error(codes.ResourceExhausted, "larger than max")
	for i, step := range []struct {
		end  ending
		want time.Duration
	}{
		{ending{}, time.Second},
		{ending{opened: true}, 2 * time.Second},
		{ending{opened: true}, 4 * time.Second},
		{ending{opened: true}, 4 * time.Second},
		{ending{opened: true, responded: true, lived: time.Hour}, 30 * time.Millisecond},
		{ending{opened: true, responded: true, lived: 400 * time.Millisecond}, 600 * time.Millisecond},
		{ending{opened: true}, time.Second},
		// Earlier responses do not reset the backoff if the reason will recur.
		{ending{opened: true, responded: true, lived: time.Hour, err: tooLarge}, 2 * time.Second},
		{ending{opened: true, responded: true, lived: time.Hour, unreadable: true}, 4 * time.Second},
	} {
		if got := p.after(step.end); got != step.want {
			t.Errorf("step %d: %v, expected %v", i, got, step.want)
		}
	}
}

// TestAbsence: C12, D5: a name about which a connected control plane is silent for 15 s is absent;
// a name that arrived or was rejected is not; a later arrival replaces the absence.
func TestAbsence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		w := newWire(func(s *wireStream) error {
			s.recv()
			s.respond("a")
			s.recv()
			r := &resource.Response{Type: resource.TypeOf(cds), Version: "2", Nonce: "m",
				Invalid: []resource.Invalid{{Name: "rejected", Err: io.ErrUnexpectedEOF}}}
			s.toClient <- r
			s.recv()
			select {
			case <-late:
				s.respond("z")
			case <-s.ctx.Done():
			}
			<-s.ctx.Done()
			return nil
		})
		virtual(t, true, w, func(r *rig) {
			c := r.join("k").want(cds, "a", "z", "rejected")
			check := func(after time.Duration, want string) {
				t.Helper()
				time.Sleep(after) //nolint:forbidigo // virtual time
				synctest.Wait()
				if got := c.state(cds); got != want {
					t.Fatalf("state %q, expected %q", got, want)
				}
			}
			check(10*time.Second, "a")
			c.want(cds, "y") // has a timer of its own
			check(4999*time.Millisecond, "a")
			check(2*time.Millisecond, "a -z")
			check(9997*time.Millisecond, "a -z")
			check(3*time.Millisecond, "a -y -z")
			close(late)
			check(time.Millisecond, "a z -y")
			check(time.Hour, "a z -y")
		})
	})
}

// TestAbsenceOfNamesAskedForAgain: C12: a name that was unsubscribed for a moment has a new timer
// from when it is subscribed again: earlier requests say nothing about it.
func TestAbsenceOfNamesAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(s *wireStream) error {
			for s.recv() != nil { // and stays silent
			}
			return nil
		})
		lingering(t, true, -1, w, func(r *rig) {
			c := r.join("k").want(cds, "stays")
			c.want(cds, "z")
			pass := func(d time.Duration) {
				time.Sleep(d) //nolint:forbidigo // virtual time
				synctest.Wait()
			}
			pass(5 * time.Second)
			c.drop(cds, "z")
			pass(5 * time.Second)
			c.want(cds, "z")
			pass(14 * time.Second)
			if got := c.state(cds); got != "-stays" {
				t.Errorf("14 seconds after it was asked for again: state %q, expected %q", got, "-stays")
			}
			pass(2 * time.Second)
			if got := c.state(cds); got != "-stays -z" {
				t.Errorf("16 seconds after it was asked for again: state %q", got)
			}
		})
	})
}

// TestNoAbsenceWithoutOrigin: C12, C14: the timer runs on a stream only: a control plane that
// cannot be reached, or whose streams fail, says nothing about names.
func TestNoAbsenceWithoutOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(s *wireStream) error {
			s.recv()
			select {
			case <-time.After(10 * time.Second):
			case <-s.ctx.Done(): // nothing may outlast the test
			}
			return status.Error(codes.Unavailable, "gone again")
		})
		w.set(connectivity.TransientFailure)
		virtual(t, true, w, func(r *rig) {
			c := r.join("k").want(cds, "z")
			time.Sleep(time.Minute) //nolint:forbidigo // virtual time
			if got := c.state(cds); got != "" || len(w.opens()) != 0 {
				t.Fatalf("state %q after %d streams", got, len(w.opens()))
			}
			w.set(connectivity.Ready)
			time.Sleep(10 * time.Minute) //nolint:forbidigo // virtual time
			if got := c.state(cds); got != "" || len(w.opens()) < 5 {
				t.Fatalf("state %q after %d streams", got, len(w.opens()))
			}
		})
	})
}

// TestSilence: a stream on which nothing is missing is up after a second of silence; one on which
// something is missing, only when the control plane has sent something or its timer has expired.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(s *wireStream) error {
			s.recv()
			<-s.ctx.Done()
			return nil
		})
		virtual(t, true, w, func(r *rig) {
			c := r.join("k").want(cds, "z")
			time.Sleep(14 * time.Second) //nolint:forbidigo // virtual time
			if c.group.Upstream().Connected {
				t.Fatal("up while the origin is silent about something missing")
			}
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			if !c.group.Upstream().Connected || c.state(cds) != "-z" {
				t.Fatal("not up although nothing is missing any more")
			}
		})
	})
}

// TestWaitingCostsNothing: while there is no connection no key polls it, however many keys wait;
// when it is back, streams are opened spread over a second (C13).
func TestWaitingCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(s *wireStream) error {
			s.recv()
			s.respond("a")
			<-s.ctx.Done()
			return nil
		})
		w.set(connectivity.TransientFailure)
		virtual(t, false, w, func(r *rig) {
			const keys = 200
			for i := range keys {
				r.join(string(rune('a'+i))).want(cds, "a")
			}
			time.Sleep(24 * time.Hour) //nolint:forbidigo // virtual time
			back := time.Now()
			if got := r.cp.Problems(); len(got) != 1 || !strings.HasPrefix(got[0], "nowhere: no stream since "+back.Add(-24*time.Hour).UTC().Format(time.RFC3339)+": ") {
				t.Errorf("the problems are %q", got)
			}
			w.set(connectivity.Ready)
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
			if got := r.cp.Problems(); got != nil {
				t.Errorf("the problems are %q although all is well", got)
			}
			opens := w.opens()
			if vain := w.unconnected(); len(opens) != keys || vain != keys {
				t.Fatalf("%d streams and %d vain attempts for %d keys", len(opens), vain, keys)
			}
			if last := opens[keys-1].Sub(back); last > 210*time.Millisecond || last < 50*time.Millisecond {
				t.Fatalf("the last stream came after %v", last)
			}
		})
	})
}

// TestBrokenConnections: a connection that breaks each time before a stream is open is paced, too.
func TestBrokenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(func(*wireStream) error { return nil })
		flaky := &flakyWire{wire: w}
		cp, err := newControlPlane(ControlPlaneConfig{Addresses: []string{"nowhere"}},
			func(string, *ControlPlaneConfig) (channel, error) { return flaky, nil })
		if err != nil {
			t.Fatal(err)
		}
		r := newRigOf(t, cp, time.Minute)
		r.join("k").want(cds, "a")
		time.Sleep(10 * time.Minute)         //nolint:forbidigo // virtual time
		if n := flaky.tries.Load(); n > 30 { // one in 30 s with jitter, and the first ones (C13)
			t.Fatalf("%d tries in ten minutes, expected at most 30", n)
		}
		r.cache.Close()
	})
}

// flakyWire always reports a connection, which fails when it is used.
type flakyWire struct {
	*wire
	tries atomic.Int64
}

func (w *flakyWire) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	w.tries.Add(1)
	return nil, status.Error(codes.Unavailable, "broken again")
}

// TestAbsencesQueue: the timers of names (C12) on their own.
func TestAbsencesQueue(t *testing.T) {
	start := time.Unix(0, 0)
	typ, other := resource.TypeOf(cds), resource.TypeOf(eds)
	q := absences{after: 15 * time.Second}
	if !q.next().IsZero() {
		t.Fatal("a timer runs for nothing")
	}
	q.await(start, typ, nil)
	q.await(start, typ, []string{"a"})
	q.await(start.Add(time.Second), other, []string{"b"})
	q.await(start.Add(2*time.Second), typ, []string{"c"})
	if got := q.next(); got != start.Add(15*time.Second) {
		t.Fatalf("next %v", got)
	}
	if got := q.expired(start.Add(14 * time.Second)); len(got) != 0 {
		t.Fatalf("expired %v", got)
	}
	if got := q.expired(start.Add(16 * time.Second)); len(got) != 2 || got[0].names[0] != "a" || got[1].typ != other {
		t.Fatalf("expired %v", got)
	}
	if !q.awaits(cds) || q.awaits(eds) {
		t.Fatal("awaits")
	}
	q.await(start.Add(3*time.Second), typ, []string{"c", "d", "e"})
	array := q.queue[:cap(q.queue)]
	q.drop(other, []string{"c"})
	q.drop(typ, []string{"b", "c", "e"})
	if got := q.expired(start.Add(time.Hour)); len(got) != 1 || len(got[0].names) != 1 || got[0].names[0] != "d" || q.awaits(cds) {
		t.Fatalf("expired %v", got)
	}
	for _, w := range array { // a queue may never be empty
		if w.names != nil {
			t.Errorf("%v are kept though their time is over", w.names)
		}
	}
}

// TestComebackIsSaid: C9: a name that was unsubscribed and subscribed again before a request was
// sent is requested again: by a list without it first, or after an unsubscription, since the
// control plane assumes that the relay has it.
func TestComebackIsSaid(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r, client := bare(t, delta, "nowhere")
		s, stream := r.bareSession(t, 0)
		a := r.newAsked(resource.TypeOf(cds))
		a.State, a.Names, a.Nonce = conversation.State{Scope: conversation.Names, Reply: conversation.Acked}, []string{"a", "b"}, "n"
		s.types[cds] = a
		d := cache.Demand{Table: client.table(cds), Names: []string{"a", "b"}, Subscribe: []string{"b"}, Again: []string{"b"}}
		r.ask(s, []cache.Demand{d}, false)
		if got := stream.sent(); got != either(delta, "-b b", "a a+b") {
			t.Fatalf("asked for %q", got)
		}
	})
}

// TestComebackIsDroppedTwice: C9: a change may cross the first unsubscription, after which the
// control plane again assumes that the relay has the resource. If the wildcard is subscribed
// meanwhile, only a new stream is unambiguous.
func TestComebackIsDroppedTwice(t *testing.T) {
	for name, c := range map[string]struct {
		was, is bool // the wildcard is subscribed
		want    string
	}{
		"names":                     {false, false, "-c-b -b b"},
		"a wildcard":                {true, true, "-b -b b-c"},
		"a wildcard that is joined": {false, true, ""},
		"a wildcard that is left":   {true, false, "-*-c-b -b b"},
	} {
		t.Run(name, func(t *testing.T) {
			r, client := bare(t, true, "nowhere")
			s, stream := r.bareSession(t, 0)
			var cause error
			s.cancel = func(err error) { cause = err }
			a := r.newAsked(resource.TypeOf(cds))
			if a.Scope = conversation.Names; c.was {
				a.Scope = conversation.Wildcard
			}
			s.types[cds] = a
			d := cache.Demand{
				Table: client.table(cds), Wildcard: c.is, WildcardChanged: c.was != c.is,
				Subscribe: []string{"b"}, Unsubscribe: []string{"c"}, Again: []string{"b"}, Twice: []string{"b"},
			}
			r.ask(s, []cache.Demand{d}, false)
			if got := stream.sent(); got != c.want {
				t.Fatalf("asked for %q, expected %q", got, c.want)
			}
			if renewed := errors.Is(cause, errRenewed); renewed != (c.want == "") {
				t.Errorf("the stream is renewed: %v", renewed)
			}
		})
	}
}

// TestNothingIsMissedBesideAnotherStream: C15: while a stream to a better server is opened, the existing
// one is sent what changes, subscriptions and unsubscriptions, and nothing again.
func TestNothingIsMissedBesideAnotherStream(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		r, client := bare(t, delta, "better", "worse")
		better, toBetter := r.bareSession(t, 0)
		worse, toWorse := r.bareSession(t, 1)
		better.serverStream.session, worse.serverStream.session = nil, nil
		r.serverStreams[0], r.serverStreams[1] = better.serverStream, worse.serverStream
		r.handle(t.Context(), event{serverStream: worse.serverStream, session: worse, kind: evOpened})
		if got := toWorse.sent(); got != "a+b" {
			t.Fatalf("asked for %q", got)
		}
		client.want(cds, "c").drop(cds, "a") // the runner has not read it yet
		time.Sleep(time.Millisecond)         //nolint:forbidigo // virtual time; until the interest ends
		r.handle(t.Context(), event{serverStream: better.serverStream, session: better, kind: evOpened})
		if got, want := toWorse.sent(), either(delta, "c-a", "b+c"); got != want {
			t.Fatalf("asked the worse server for %q, expected %q", got, want)
		}
		if got := toBetter.sent(); got != "b+c" {
			t.Fatalf("asked the better server for %q", got)
		}
		r.handle(t.Context(), event{serverStream: better.serverStream, session: better, kind: evEnded, end: ending{err: io.EOF, opened: true}})
		if got := toWorse.sent(); got != "" {
			t.Fatalf("asked again for %q", got)
		}
	})
}
