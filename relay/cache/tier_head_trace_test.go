package cache

import (
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"xdsrelay/relay/trace"
)

// TestHeadTraces: a head carries the trace of the update that made it. Equal content that a control
// plane sends later continues that trace, equal content that was sent before is linked, and other
// content is not connected with it.
func TestHeadTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tracer := trace.New(trace.Config{Spans: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")})
		defer tracer.Close()
		w, ahead := start(t, Config{HeadWait: headWait, Tracer: tracer}), start(t, Config{})
		w.client(clusters, true)
		ahead.client(clusters, true)
		w.apply(clusters, res("x", "1"))
		ahead.apply(clusters, res("x", "1"))
		const theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		agree := func(text string) {
			h := ahead.headOf(clusters)
			h.Trace = text
			w.group.ObserveHead(clusters, h)
		}
		// took returns the duration of the last span of a head; there must be spans of them.
		var links []sdktrace.Link // of that span
		took := func(what string, n int) (last time.Duration) {
			t.Helper()
			for _, s := range spans.Ended() {
				if s.Name() != "head" {
					continue
				}
				if n--; s.Parent().SpanID().String() != theirs[36:52] || s.SpanContext().TraceID().String() != theirs[3:35] {
					t.Errorf("%s: a head below %v", what, s.Parent())
				}
				last, links = s.EndTime().Sub(s.StartTime()), s.Links()
			}
			if n != 0 {
				t.Fatalf("%s: %d more spans of heads were expected", what, n)
			}
			return last
		}
		agree(theirs) // the content was here before
		if d := took("the head comes second", 1); d != 0 {
			t.Errorf("it took %v", d)
		}
		first := w.group.Table(clusters).Digest().Traced
		if len(links) != 1 || links[0].SpanContext.SpanID().String() != first.Parent()[36:52] {
			t.Errorf("content before its head: links %v, expected one to %s", links, first.Parent())
		}

		ahead.apply(clusters, res("x", "2"))
		agree(theirs)
		took("the head comes first", 1)
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		w.apply(clusters, res("x", "2"))
		if d := took("the content has come", 2); d != time.Second {
			t.Errorf("it took %v", d)
		}
		if len(links) > 0 {
			t.Errorf("content after its head: links %v", links)
		}
		second := w.group.Table(clusters).Digest().Traced

		ahead.apply(clusters, res("x", "3"))
		agree(theirs)
		w.apply(clusters, res("x", "4"))
		third := w.group.Table(clusters).Digest().Traced
		time.Sleep(2 * headWait) //nolint:forbidigo // virtual time
		w.apply(clusters, res("x", "3"))
		took("much later, by chance", 2)
		fourth := w.group.Table(clusters).Digest().Traced

		ahead.apply(clusters, res("x", "5"))
		agree("") // not traced
		w.apply(clusters, res("x", "5"))
		took("without a trace", 2)

		tracer.Close()
		of := func(u *trace.Update) sdktrace.ReadOnlySpan {
			for _, s := range spans.Ended() {
				if s.SpanContext().SpanID().String() == u.Parent()[36:52] {
					return s
				}
			}
			t.Fatal("an update has no span")
			return nil
		}
		for what, u := range map[string]*trace.Update{"before its head": first, "of another head": third, "the same by chance": fourth} {
			if s := of(u); s.Parent().IsValid() {
				t.Errorf("content %s: below %v", what, s.Parent())
			}
		}
		if s := of(second); s.Parent().SpanID().String() != theirs[36:52] {
			t.Errorf("content after its head: below %v", s.Parent())
		}
	})
}
