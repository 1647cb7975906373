package trace

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// traced runs a test in virtual time with a Tracer, whose spans are recorded.
func traced(t *testing.T, change func(*Config), f func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder)) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		cfg := Config{Spans: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"), Clients: 2}
		change(&cfg)
		tracer := New(cfg)
		defer tracer.Close()
		f(t, tracer, spans)
	})
}

// ended counts the spans of a name that have ended, and gives the last.
func ended(spans *tracetest.SpanRecorder, name string) (n int, last sdktrace.ReadOnlySpan) {
	for _, s := range spans.Ended() {
		if s.Name() == name {
			n, last = n+1, s
		}
	}
	return n, last
}

func valueOf(s sdktrace.ReadOnlySpan, name string) any {
	for _, kv := range s.Attributes() {
		if string(kv.Key) == name {
			return kv.Value.AsInterface()
		}
	}
	return nil
}

// TestUpdate: an update is over when all have answered, and ends with the last answer.
func TestUpdate(t *testing.T) {
	traced(t, func(*Config) {}, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		began := time.Now()
		u := tracer.Start(Source{Type: "t", Received: began, Began: began}, 1, 10)
		for i := range 10 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
			u.Sent(Client{Ref: i, ID: "c"}, time.Now())
		}
		for i := range 10 {
			time.Sleep(time.Millisecond) //nolint:forbidigo // virtual time
			u.Answered(i, i != 7, "bad", time.Now())
		}
		synctest.Wait()
		n, span := ended(spans, "update")
		if n != 1 || tracer.Live() || u.Flying() {
			t.Fatalf("%d updates have ended; live: %t", n, tracer.Live())
		}
		if took := span.EndTime().Sub(began); took != 20*time.Millisecond {
			t.Errorf("it took %v, expected 20ms", took)
		}
		for name, want := range map[string]any{"xds.acks": int64(9), "xds.nacks": int64(1), "xds.nack": "bad", "xds.sent": int64(10), "xds.complete": true} {
			if got := valueOf(span, name); got != want {
				t.Errorf("%s is %v, expected %v", name, got, want)
			}
		}
		if n, _ := ended(spans, "client"); n != 2 {
			t.Errorf("%d clients have spans, expected 2", n)
		}
	})
}

// TestRejected: what a client rejected has the status ERROR: the update, the answers, and
// the client.
func TestRejected(t *testing.T) {
	traced(t, func(*Config) {}, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		u := tracer.Start(Source{Received: time.Now()}, 1, 2)
		for i := range 2 {
			u.Sent(Client{Ref: i}, time.Now())
			u.Answered(i, i == 0, "bad", time.Now())
		}
		synctest.Wait()
		failed := map[string]int{}
		for _, s := range spans.Ended() {
			if s.Status().Code == codes.Error && s.Status().Description == "rejected: bad" {
				failed[s.Name()]++
			}
		}
		if want := map[string]int{"update": 1, "answer": 1, "client": 1}; !maps.Equal(failed, want) {
			t.Errorf("these spans have the status ERROR: %v, expected %v", failed, want)
		}
	})
}

// TestTier: an update that was sent to other nodes is over when their clients have
// answered, too, and says what these did.
func TestTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		node := func() *Tracer {
			tracer := New(Config{Spans: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")})
			t.Cleanup(tracer.Close)
			return tracer
		}
		owner, b, c := node(), node(), node()
		owner.Follow(func(_ context.Context, of []string) []Part { return append(b.Parts(of), c.Parts(of)...) })
		began := time.Now()
		after := func(d time.Duration) time.Time {
			time.Sleep(d) //nolint:forbidigo // virtual time
			return time.Now()
		}
		root := owner.Start(Source{Received: began}, 1, 2)
		below := []*Update{
			b.Start(Source{Received: began, Parent: root.Parent()}, 1, 1), c.Start(Source{Received: began, Parent: root.Parent()}, 1, 1),
		}
		for i, u := range below {
			root.Sent(Client{Ref: u, Peer: true}, began)
			root.Answered(u, true, "", began)
			u.Sent(Client{Ref: i}, began)
		}
		below[0].Answered(0, true, "", after(time.Second))
		after(5 * time.Second)
		if n, _ := ended(spans, "update"); n != 1 {
			t.Fatalf("%d updates have ended while a client has not answered, expected that of node b", n)
		}
		below[1].Answered(1, false, "bad", after(time.Second))
		after(2 * time.Second) // the whole is looked at once a second
		// The last of them may end at the same time as the whole.
		all := spans.Ended()
		i := slices.IndexFunc(all, func(s sdktrace.ReadOnlySpan) bool {
			return s.SpanContext().SpanID() == root.span.SpanContext().SpanID()
		})
		if n, _ := ended(spans, "update"); n != 3 || i < 0 {
			t.Fatalf("%d updates have ended, expected all 3", n)
		}
		last := all[i]
		if took := last.EndTime().Sub(began); took != 7*time.Second || last.Status().Description != "rejected: bad" || valueOf(last, "xds.complete") != true ||
			valueOf(last, "xds.peers.acks") != int64(1) || valueOf(last, "xds.peers.nacks") != int64(1) {
			t.Errorf("it took %v: %v, %v", took, last.Status(), last.Attributes())
		}
	})
}

// TestTierWithoutAnswer: an update waits for other nodes for as long as for clients, and
// for those that know nothing of it not at all.
func TestTierWithoutAnswer(t *testing.T) {
	traced(t, func(*Config) {}, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		open := true
		tracer.Follow(func(_ context.Context, of []string) (parts []Part) {
			if open {
				parts = []Part{{Span: of[0], Open: true}}
			}
			return parts
		})
		update := func() {
			u := tracer.Start(Source{Received: time.Now()}, 1, 1)
			u.Sent(Client{Ref: 1, Peer: true}, time.Now())
			u.Answered(1, true, "", time.Now())
		}
		update()
		time.Sleep(40 * time.Second) //nolint:forbidigo // virtual time
		if n, span := ended(spans, "update"); n != 1 || valueOf(span, "xds.complete") != false || valueOf(span, "xds.incomplete") != "on another node" {
			t.Errorf("%d updates have ended", n)
		}
		open = false
		update()
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		if n, span := ended(spans, "update"); n != 2 || valueOf(span, "xds.complete") != true {
			t.Errorf("%d updates have ended", n)
		}
	})
}

// TestUnanswered: an update that not everybody answers is over after a time.
func TestUnanswered(t *testing.T) {
	traced(t, func(*Config) {}, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		u := tracer.Start(Source{Received: time.Now()}, 1, 2)
		u.Sent(Client{Ref: 1}, time.Now())
		u.Left()
		time.Sleep(40 * time.Second) //nolint:forbidigo // virtual time
		n, span := ended(spans, "update")
		if n != 1 || valueOf(span, "xds.complete") != false || valueOf(span, "xds.incomplete") != "timeout" {
			t.Errorf("%d updates have ended, attributes %v", n, span.Attributes())
		}
		u.Answered(1, true, "", time.Now()) // too late, and no harm
	})
}

// TestTooMany: beyond a number the oldest update is over.
func TestTooMany(t *testing.T) {
	traced(t, func(c *Config) { c.InFlight = 3 }, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		for range 5 {
			tracer.Start(Source{Received: time.Now()}, 1, 1)
			synctest.Wait()
		}
		if n, span := ended(spans, "update"); n != 2 || valueOf(span, "xds.incomplete") != "too many updates in flight" {
			t.Errorf("%d updates have ended, expected 2", n)
		}
	})
}

// slow is an exporter that takes its time for a span, until it is told.
type slow struct {
	sdktrace.SpanProcessor
	let chan struct{}
}

func (s slow) OnEnd(span sdktrace.ReadOnlySpan) {
	<-s.let
	s.SpanProcessor.OnEnd(span)
}

// TestTooManyAtOnce: updates that come faster than spans are made are bounded, too.
func TestTooManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := slow{tracetest.NewSpanRecorder(), make(chan struct{})}
		tracer := New(Config{Spans: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test"), InFlight: 3})
		defer tracer.Close()
		for range 20 {
			tracer.Start(Source{Received: time.Now()}, 1, 1)
		}
		close(spans.let)
		synctest.Wait()
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time: less than an update may take
		if n := tracer.live.Load(); n != 3 {
			t.Errorf("%d updates are in flight, expected 3", n)
		}
	})
}

// TestParent: an update that came from another node belongs to its trace.
func TestParent(t *testing.T) {
	traced(t, func(*Config) {}, func(t *testing.T, tracer *Tracer, spans *tracetest.SpanRecorder) {
		owner := tracer.Start(Source{Received: time.Now()}, 1, 1)
		tracer.Start(Source{Received: time.Now(), Parent: owner.Parent()}, 1, 0)
		tracer.Start(Source{Received: time.Now(), Parent: "no trace context"}, 1, 0)
		synctest.Wait()
		all := spans.Ended()
		below := 0
		for _, s := range all {
			if s.Name() == "update" && s.Parent().SpanID() == owner.span.SpanContext().SpanID() {
				below++
			}
		}
		if below != 1 {
			t.Errorf("%d updates are below the first, expected 1", below)
		}
	})
}

// TestNone: nothing is traced without a Tracer, at no cost.
func TestNone(t *testing.T) {
	var tracer *Tracer
	if got := testing.AllocsPerRun(100, func() {
		u := tracer.Start(Source{}, 1, 1)
		u.Sent(Client{}, time.Time{})
		u.Answered(nil, true, "", time.Time{})
		u.Left()
	}); got > 0 || tracer.Live() {
		t.Errorf("%v allocations without a Tracer", got)
	}
	tracer.Begin("x")("")
	tracer.Close()
}
