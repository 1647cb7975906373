package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// judged is a key whose changes canaries get first, on a stream to a scripted control plane.
type judged struct {
	*client
	origin *xdstest.Origin
	stream *xdstest.OriginStream
	delta  bool
	nonce  string // of the newest response
}

// newJudged begins with cluster a. Replies to responses that change something wait for canaries.
func newJudged(t *testing.T, delta bool, wait time.Duration) *judged {
	t.Helper()
	o := memory.NewOrigin(t)
	j := &judged{client: newRig(t, fast(delta, o.Addr())).join("k"), origin: o, delta: delta}
	j.group.Govern(&cache.Governor{Types: map[string]bool{cds: true, rds: true}, Wait: wait, Changed: func(*cache.Group) {}})
	j.want(cds, "*")
	j.stream = o.NextStream(t)
	expect(t, j.stream, cds, "[] node")
	j.respond(t, "v1", cluster("a", 1))
	j.acked(t, "v1")
	return j
}

func (j *judged) respond(t *testing.T, version string, all ...proto.Message) {
	t.Helper()
	j.nonce = j.stream.Respond(t, cds, version, all...)
}

// acked expects the ACK of the newest response.
func (j *judged) acked(t *testing.T, version string) {
	t.Helper()
	expect(t, j.stream, cds, either(j.delta, "[]", "[] version="+version)+" nonce="+j.nonce)
}

// rejected expects a NACK or a report of the newest response, which quotes a version.
func (j *judged) rejected(t *testing.T, version string) {
	t.Helper()
	r := expect(t, j.stream, cds, either(j.delta, "[]", "[] version="+version)+" nonce="+j.nonce+" error=3")
	if got := r.Error.GetMessage(); got != "a: too bad" {
		t.Errorf("error_detail says %q", got)
	}
}

// cut is what is pending.
func (j *judged) cut(t *testing.T) *cache.Overlay {
	t.Helper()
	xdstest.Eventually(t, "a change is pending", j.group.HasPending)
	return j.group.CutOverlay()
}

func tooBad(*resource.Type) string { return "a: too bad" }

// TestReplyWaits: C3, K1: the ACK of a response whose change canaries get first waits for their answer, and
// meanwhile no other request of the type is sent. Without a verdict it is sent after the time of the policy.
// Later requests have all that clients want then.
func TestReplyWaits(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		for _, passes := range []bool{true, false} {
			j := newJudged(t, delta, 900*time.Millisecond)
			j.respond(t, "v2", cluster("a", 2))
			o := j.cut(t)
			j.want(cds, "b")
			j.want(eds, "e") // another type does not wait
			expect(t, j.stream, eds, "[e]")
			j.stream.Quiet(t, 800*time.Millisecond)
			if passes {
				o.Judge(cache.VerdictPasses, nil)
			}
			j.acked(t, "v2")
			expect(t, j.stream, cds, either(delta, "[* b]", "[* b] version=v2 nonce="+j.nonce))
			j.stream.Quiet(t, 2*time.Second)
			o.Judge(cache.VerdictFailsInTime, tooBad) // too late
			j.stream.Quiet(t, quiet)
		}
	})
}

// TestReplyIsNack: K1, C4: if canaries reject a response in time, it gets a NACK with the version of the
// response before. That it is sent again changes nothing, so it gets an ACK at once, and the next revision
// arrives: no loop, and no stall.
func TestReplyIsNack(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		for _, is := range []cache.Outcome{cache.VerdictFails, cache.VerdictFailsInTime} {
			j := newJudged(t, delta, 900*time.Millisecond)
			j.respond(t, "v2", cluster("a", 2))
			j.stream.Quiet(t, quiet)
			o := j.cut(t)
			o.Judge(is, tooBad)
			j.rejected(t, "v1")
			o.Judge(is, tooBad)
			j.stream.Quiet(t, quiet)
			for range 3 {
				j.respond(t, "v2", cluster("a", 2))
				j.acked(t, "v2")
			}
			j.stream.Quiet(t, 2*time.Second)
			j.respond(t, "v3", cluster("a", 3))
			j.stream.Quiet(t, quiet)
			next := j.cut(t)
			next.Judge(cache.VerdictPasses, nil)
			j.acked(t, "v3")
			j.group.Promote(next, cache.CausePromoted)
			j.waitState(cds, "a")
			if got := string(j.bodies(cds)["a"]); got != string(marshal(t, cluster("a", 3))) {
				t.Errorf("clients see %q", got)
			}
		}
	})
}

// TestLateReport: K2: if canaries reject a response after its ACK, one more request with its nonce and the
// version that was accepted says so, once, and the next response gets its ACK.
func TestLateReport(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 0)
		j.respond(t, "v2", cluster("a", 2), cluster("b", 2))
		j.acked(t, "v2")
		o := j.cut(t)
		j.stream.Quiet(t, time.Hour)
		o.Judge(cache.VerdictFails, tooBad)
		j.rejected(t, "v2")
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, time.Hour)
		j.respond(t, "v3", cluster("a", 3), cluster("b", 2))
		j.acked(t, "v3")
	})
}

// TestLateReportIsAboutTheNewest: K2: there is no report about something else than what the stream has
// carried last: after a newer response, on a new stream whose server has sent nothing, or with a verdict that
// is not about the type.
func TestLateReportIsAboutTheNewest(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 0)
		bad := func() *cache.Overlay {
			j.respond(t, "v2", cluster("a", 2))
			j.acked(t, "v2")
			return j.cut(t)
		}
		o := bad()
		j.respond(t, "v3", cluster("a", 3))
		j.acked(t, "v3")
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, time.Hour)

		o = bad()
		o.Judge(cache.VerdictFails, func(*resource.Type) string { return "" })
		o.Judge(cache.VerdictFailsInTime, tooBad)
		j.stream.Quiet(t, time.Hour)

		j.stream.Close(nil)
		j.stream = j.origin.NextStream(t)
		j.stream.NextRequestOf(t, cds)
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, time.Hour)
	})
}

// TestLateReportOnTheNextStream: K2: on a new stream, a server that has sent the revision again gets the
// report with the nonce of that.
func TestLateReportOnTheNextStream(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 0)
		j.respond(t, "v2", cluster("a", 2))
		j.acked(t, "v2")
		o := j.cut(t)
		j.stream.Close(nil)
		j.stream = j.origin.NextStream(t)
		j.stream.NextRequestOf(t, cds)
		j.respond(t, "v2", cluster("a", 2))
		j.acked(t, "v2")
		o.Judge(cache.VerdictFails, tooBad)
		j.rejected(t, "v2")
		j.stream.Quiet(t, time.Hour)
	})
}

// TestReplyEndsWithTheStream: C1: a reply that waits ends with its stream. The next one begins with the
// version of the response before, and takes a verdict about the one before for nothing.
func TestReplyEndsWithTheStream(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 900*time.Millisecond)
		j.respond(t, "v2", cluster("a", 2))
		o := j.cut(t)
		j.want(cds, "b")
		j.stream.Close(nil)
		j.stream = j.origin.NextStream(t)
		expect(t, j.stream, cds, either(delta, "[* b] held=[a] node", "[* b] version=v1 node"))
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, 2*time.Second)
		j.respond(t, "v3", cluster("a", 3))
		j.stream.Quiet(t, 800*time.Millisecond)
		expect(t, j.stream, cds, either(delta, "[]", "[* b] version=v3")+" nonce="+j.nonce)
	})
}

// TestNextResponseEndsTheWait: C3: a response before the reply to the one before ends its wait, so replies
// are sent in order. A verdict about the first one does nothing then.
func TestNextResponseEndsTheWait(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 900*time.Millisecond)
		j.respond(t, "v2", cluster("a", 2))
		o := j.cut(t)
		first := j.nonce
		j.respond(t, "v3", cluster("a", 3))
		expect(t, j.stream, cds, either(delta, "[]", "[] version=v2")+" nonce="+first)
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, 800*time.Millisecond)
		j.cut(t).Judge(cache.VerdictFails, tooBad)
		j.rejected(t, "v2")
	})
}

// TestReportIsBounded: C4: a report is at most as long as a NACK.
func TestReportIsBounded(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 0)
		j.respond(t, "v2", cluster("a", 2))
		j.acked(t, "v2")
		j.cut(t).Judge(cache.VerdictFails, func(*resource.Type) string { return strings.Repeat("ä", maxErrorDetail) })
		if got := j.stream.NextRequestOf(t, cds).Error.GetMessage(); len(got) > maxErrorDetail {
			t.Errorf("%d bytes", len(got))
		}
	})
}

// TestOtherResponsesAreNoPartOfIt: a response that has nothing of what is pending gets its ACK at once, and
// a report would be about something else (K2).
func TestOtherResponsesAreNoPartOfIt(t *testing.T) {
	variants(t, func(t *testing.T, delta bool) {
		j := newJudged(t, delta, 900*time.Millisecond)
		j.want(rds, "r", "s")
		expect(t, j.stream, rds, "[r s]")
		ack := func(nonce, version string) {
			t.Helper()
			expect(t, j.stream, rds, either(delta, "[]", "[r s] version="+version)+" nonce="+nonce)
		}
		for i := range 2 { // the first of each passes
			ack(j.stream.Respond(t, rds, fmt.Sprint("w", i), route([]string{"r", "s"}[i], 1)), fmt.Sprint("w", i))
		}
		nonce := j.stream.Respond(t, rds, "w2", route("r", 2))
		o := j.cut(t)
		o.Judge(cache.VerdictPasses, nil)
		ack(nonce, "w2")
		ack(j.stream.Respond(t, rds, "w3", route("s", 1)), "w3")
		o.Judge(cache.VerdictFails, tooBad)
		j.stream.Quiet(t, time.Hour)
	})
}
