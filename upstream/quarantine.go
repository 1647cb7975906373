package upstream

import (
	"cmp"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
	"xdsrelay/upstream/quarantine"
)

// Some control planes end the whole stream when they receive a request for a type that they do not
// know: go-control-plane's MuxCache is one. The request of one client would then interrupt the
// updates of all clients of its key, on each new stream. So a type that the server has never
// answered is quarantined once a stream has ended after a request for it: the stream of the key no
// longer asks for it, and a second stream does (see probe.go), until the type has proven harmless.
//
// The relay can only guess which request ended a stream. A wrong guess is cheap: a type that is
// quarantined without reason is requested a moment later on the second stream, and returns to the
// first one with the answer. A type that the server has answered is never quarantined.

const (
	// evidenceWindow is how long after a request the end of the stream may be due to it. A type
	// that was requested longer ago is harmless.
	evidenceWindow = 5 * time.Second
	// proof is how many points of evidence quarantine a type. weak is how many points the end of a
	// stream is worth if its error may have any reason; see [ending.points].
	proof = 6
	weak  = 2

	// A quarantined type is requested again after firstProbe, then each time after twice as long,
	// up to lastProbe, ±20 %: the server may support the type after an upgrade.
	firstProbe = time.Second
	lastProbe  = 5 * time.Minute
)

// typeTrust is what a server stream has learned about the types that it requests. The runner owns
// it. It lasts as long as the server stream.
type typeTrust struct {
	trusted           map[string]struct{}         // URLs of types that are harmless
	points            map[string]int              // evidence against the other types, by type URL
	quarantined       map[string]*quarantineState // by type URL
	awaitingReconnect *evidence                   // evidence that counts only if the next stream uses the same connection
	// cautious is set once a type has ended a probe stream. From then on each new type is requested
	// on a probe stream first, so that no further type ends the main stream.
	cautious bool
	probe    *serverStream // the second stream, or the attempt to open it; nil if there is none
	shadow   quarantine.Types
}

// evidence is what the end of a stream says against types.
type evidence struct {
	types  []*resource.Type
	points int
	why    error
	conn   string // connection of the stream that ended
}

// quarantine is the state of a quarantined type.
type quarantineState struct {
	typ      *resource.Type
	pause    time.Duration // pause after the next failed attempt
	due      time.Time     // time of the next attempt
	failures int           // probe streams that have ended
	idle     bool          // no client wants the type now
	reported bool          // operators were informed that the type seems to end streams
}

// points is how much the end of a stream counts against the types that it requested last. Servers
// restart, shed load and lose connections for reasons of their own. A stream that ends before any
// response may have failed for a reason other than a type.
func (e ending) points() int {
	if !e.opened || e.ours || errors.Is(e.err, io.EOF) {
		return 0
	}
	switch code := status.Code(e.err); {
	case e.responded:
		switch code {
		case codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded,
			codes.ResourceExhausted, codes.Aborted, codes.Unauthenticated:
			return weak
		}
		return proof
	case code == codes.Unknown, code == codes.InvalidArgument, code == codes.NotFound,
		code == codes.FailedPrecondition, code == codes.OutOfRange:
		return proof / 2
	}
	return 0
}

// onStreamEnd finds out which types may have ended a stream of l.
func (r *runner) onStreamEnd(l *serverStream, s *session, end ending, now time.Time) {
	var untrusted []*resource.Type
	for _, a := range s.types {
		switch {
		case l.trusts(a.typ):
		case now.Sub(a.since) >= evidenceWindow:
			l.trust(a.typ)
		default:
			untrusted = append(untrusted, a.typ)
		}
	}
	slices.SortFunc(untrusted, func(a, b *resource.Type) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.URL, b.URL))
	})
	if len(l.trusted) == 0 && len(untrusted) > 0 {
		untrusted = untrusted[1:] // at least one type must stay on the stream
	}
	c := &evidence{types: untrusted, points: end.points(), why: end.err, conn: s.conn}
	switch {
	case c.points == weak:
		l.awaitingReconnect = c
	case c.points > 0:
		r.accuse(l, c, now)
	}
	if shadowing {
		var requested []quarantine.Request
		for _, a := range s.types {
			requested = append(requested, quarantine.Request{Type: a.typ, Since: a.since})
		}
		l.shadow.StreamEnded(requested, quarantine.Ending{Points: end.points(), Why: end.err, Conn: s.conn}, now)
		l.compare("the end of a stream")
	}
}

// onReconnect counts evidence that is valid only if the connection has survived the stream: a
// server that shuts down, or a broken connection, says nothing about types.
func (r *runner) onReconnect(l *serverStream, now time.Time) {
	c := l.awaitingReconnect
	l.awaitingReconnect = nil
	if c != nil && c.conn == l.session.conn {
		r.accuse(l, c, now)
	}
	if shadowing {
		l.shadow.Reconnected(l.session.conn, now)
		l.compare("reconnect")
	}
}

// accuse counts evidence against types and quarantines those with enough of it.
func (r *runner) accuse(l *serverStream, c *evidence, now time.Time) {
	for _, t := range c.types {
		if l.points == nil {
			l.points = make(map[string]int)
		}
		if l.points[t.URL] += c.points; l.points[t.URL] >= proof {
			r.quarantine(l, t, c.why, now.Add(jittered(firstProbe)))
		}
	}
}

func (l *serverStream) trusts(t *resource.Type) bool {
	_, is := l.trusted[t.URL]
	return is
}

// quarantines reports whether the type is quarantined.
func (l *serverStream) quarantines(t *resource.Type) bool { return l.quarantined[t.URL] != nil }

// primaryStream returns the server stream whose typeTrust applies to the streams of l.
func (l *serverStream) primaryStream() *serverStream {
	if l.primary != nil {
		return l.primary
	}
	return l
}

// trust records that a type is harmless.
func (l *serverStream) trust(t *resource.Type) {
	if l.trusted == nil {
		l.trusted = make(map[string]struct{})
	}
	l.trusted[t.URL] = struct{}{}
	delete(l.points, t.URL)
}

// mayRequest reports whether s may request a type. If not, it makes sure that a probe stream does.
func (r *runner) mayRequest(s *session, t *resource.Type, now time.Time) bool {
	l := s.serverStream
	if l.probeFor != nil {
		return l.probeFor.typ.URL == t.URL
	}
	may := r.mayRequestMain(s, t, now)
	if shadowing {
		if got, _ := l.shadow.MayRequest(t, s.types[t.URL] != nil, now); got != may {
			panic("the shadow requests " + t.URL)
		}
		l.compare("a demand")
	}
	return may
}

func (r *runner) mayRequestMain(s *session, t *resource.Type, now time.Time) bool {
	l := s.serverStream
	if q := l.quarantined[t.URL]; q != nil {
		if q.idle {
			r.setIdle(l, q, false)
		}
		return false
	}
	if l.cautious && len(l.trusted) > 0 && s.types[t.URL] == nil && !l.trusts(t) {
		r.quarantine(l, t, nil, now)
		return false
	}
	return true
}

// quarantine keeps a type off the streams of l. why is nil where this is only a precaution.
func (r *runner) quarantine(l *serverStream, t *resource.Type, why error, due time.Time) {
	if l.quarantined == nil {
		l.quarantined = make(map[string]*quarantineState)
	}
	q := &quarantineState{typ: t, pause: 2 * firstProbe, due: due}
	l.quarantined[t.URL] = q
	if why != nil {
		r.report(l, q, why)
	}
}

// report informs operators once that a stream has ended after a request for a type.
func (r *runner) report(l *serverStream, q *quarantineState, why error) {
	if !q.reported {
		q.reported = true
		l.server.journal.quarantined(string(r.feed.Key()), q.typ.URL, why)
		r.show(l, q, true)
	}
}

// setIdle records whether clients want something of a quarantined type.
func (r *runner) setIdle(l *serverStream, q *quarantineState, idle bool) {
	if q.idle != idle {
		q.idle = idle
		r.show(l, q, !idle)
	}
}

// show adds a type to what operators see as quarantined, or removes it. Types that were only
// quarantined as a precaution are not shown.
func (r *runner) show(l *serverStream, q *quarantineState, on bool) {
	if !q.reported {
		return
	}
	n := int64(1)
	if !on {
		n = -1
	}
	r.cp.metrics.addQuarantined(n)
	l.server.journal.setQuarantined(string(r.feed.Key()), q.typ.URL, on)
}

// release ends the quarantine of a type and requests it on the main stream.
func (r *runner) release(l *serverStream, q *quarantineState) {
	l.trust(q.typ)
	delete(l.quarantined, q.typ.URL)
	r.show(l, q, false)
	if shadowing {
		l.shadow.Release(time.Now())
		l.compare("a release")
	}
	if s := l.session; s != nil {
		r.askType(s, q.typ)
	}
	if q.reported {
		l.server.journal.released(string(r.feed.Key()), q.typ.URL)
	}
}

// forgetQuarantined drops the quarantine state of l when l ends.
func (r *runner) forgetQuarantined(l *serverStream) {
	r.stopProbe(l)
	for _, q := range l.quarantined {
		r.setIdle(l, q, true)
	}
	if shadowing {
		l.shadow.Close(time.Time{})
		l.compare("the end of the server stream")
	}
	l.quarantined = nil
}

// jittered returns a pause that is up to 20 % longer or shorter.
func jittered(pause time.Duration) time.Duration {
	return pause*4/5 + rand.N(pause*2/5)
}
