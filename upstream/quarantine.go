package upstream

import (
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
	"xdsrelay/upstream/quarantine"
)

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
			return quarantine.Weak
		}
		return quarantine.Proof
	case code == codes.Unknown, code == codes.InvalidArgument, code == codes.NotFound,
		code == codes.FailedPrecondition, code == codes.OutOfRange:
		return quarantine.Strong
	}
	return 0
}

// evidence is what the end of a stream says about the types that it requested.
func (e ending) evidence(s *session) quarantine.Ending {
	return quarantine.Ending{Points: e.points(), Why: e.err, Conn: s.conn}
}

// onStreamEnd finds out which types may have ended a stream of l.
func (r *runner) onStreamEnd(l *serverStream, s *session, end ending, now time.Time) {
	requested := make([]quarantine.Request, 0, len(s.types))
	for _, a := range s.types {
		requested = append(requested, quarantine.Request{Type: a.Type, Since: a.since})
	}
	r.inform(l, l.types.StreamEnded(requested, end.evidence(s), now)...)
}

// primaryStream returns the server stream whose quarantine applies to the streams of l.
func (l *serverStream) primaryStream() *serverStream {
	if l.primary != nil {
		return l.primary
	}
	return l
}

// quarantines reports whether the type is quarantined.
func (l *serverStream) quarantines(t *resource.Type) bool {
	return l.types.State(t.URL).IsQuarantined()
}

// mayRequest reports whether s may request a type. If not, a probe stream does.
func (r *runner) mayRequest(s *session, t *resource.Type, now time.Time) bool {
	l := s.serverStream
	if l.probeFor != nil {
		return l.probeFor.URL == t.URL
	}
	may, change := l.types.MayRequest(t, s.types[t.URL] != nil, now)
	r.inform(l, change)
	return may
}

// inform shows operators what has changed about types. Types that are only quarantined as a
// precaution are not shown.
func (r *runner) inform(l *serverStream, changes ...quarantine.Change) {
	for _, c := range changes {
		if c.Effect == 0 {
			continue
		}
		key, typeURL := string(r.feed.Key()), c.Type.URL
		if c.Effect&quarantine.Report != 0 {
			l.server.journal.quarantined(key, typeURL, c.Why)
		}
		if c.Effect&quarantine.Show != 0 {
			r.cp.metrics.addQuarantined(1)
			l.server.journal.setQuarantined(key, typeURL, true)
		}
		if c.Effect&quarantine.Hide != 0 {
			r.cp.metrics.addQuarantined(-1)
			l.server.journal.setQuarantined(key, typeURL, false)
		}
		if c.Effect&quarantine.Clear != 0 {
			l.server.journal.released(key, typeURL)
		}
	}
}

// closeQuarantine ends the quarantine of all types when l ends.
func (r *runner) closeQuarantine(l *serverStream) {
	r.stopProbe(l)
	r.inform(l, l.types.Close(time.Now())...)
}

// jittered returns a pause that is up to 20 % longer or shorter.
func jittered(pause time.Duration) time.Duration {
	return pause*4/5 + rand.N(pause*2/5)
}
