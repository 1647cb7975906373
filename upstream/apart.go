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
)

// Some control planes end the whole stream when they are asked for a type that they
// do not know: go-control-plane's MuxCache is one. What one client asks for would
// then take the updates away from all clients of its key, stream after stream. So a
// type of which the server has never said anything is set apart once a stream has
// ended in its company: the key's stream does without it, and it is asked for on a
// second stream (see probe.go), until that has done well.
//
// Which request a stream has ended for is a guess. It costs little to be wrong: who is
// set apart without reason is asked for a moment later, on another stream, and is
// back on the first one with the answer. What the server has answered for is never
// set apart.

const (
	// blameFor is how long after a request the end of the stream may be due to it.
	// A type that has been asked for that long does no harm.
	blameFor = 5 * time.Second
	// proof is how much has to speak against a type, and maybe what an end says that
	// can have any reason; see [ending.against].
	proof = 6
	maybe = 2

	// A type that is set apart is asked for after firstProbe, then after twice as
	// long each, up to lastProbe, ±20 %: the server may learn it with its next version.
	firstProbe = time.Second
	lastProbe  = 5 * time.Minute
)

// trial is what a link has found out about the types that it asks for. It is owned
// by the runner, as long as the link.
type trial struct {
	known  map[string]struct{} // type URLs that do no harm
	doubts map[string]int      // by type URL: what speaks against the others
	apart  map[string]*suspect // by type URL
	owed   *charge             // that the next stream will confirm or not
	// wary says that a type has ended the stream that was made for it. From then on
	// whatever is new goes there first, so that each further type ends nothing.
	wary  bool
	probe *link // the second stream, or the attempt at it; nil if there is none
}

// charge is what speaks against types.
type charge struct {
	types  []*resource.Type
	points int
	why    error
	conn   string // of the stream that ended
}

// suspect is a type that is set apart.
type suspect struct {
	typ   *resource.Type
	pause time.Duration // before the next attempt but one
	due   time.Time     // of the next attempt
	ends  int           // of streams that were made for it
	idle  bool          // nothing of it is wanted any more
	said  bool          // it has been told that it seems to have ended a stream
}

// against is how much the end of a stream speaks against what it was asked for last.
// Servers go away, shed load and lose connections for reasons of their own, and a
// stream that ends before any answer may not be meant for anybody.
func (e ending) against() int {
	if !e.opened || e.ours || errors.Is(e.err, io.EOF) {
		return 0
	}
	switch code := status.Code(e.err); {
	case e.responded:
		switch code {
		case codes.Unavailable, codes.Internal, codes.Canceled, codes.DeadlineExceeded,
			codes.ResourceExhausted, codes.Aborted, codes.Unauthenticated:
			return maybe
		}
		return proof
	case code == codes.Unknown, code == codes.InvalidArgument, code == codes.NotFound,
		code == codes.FailedPrecondition, code == codes.OutOfRange:
		return proof / 2
	}
	return 0
}

// judge learns from the end of a stream of l which types may have been the reason.
func (r *runner) judge(l *link, s *session, end ending, now time.Time) {
	var suspects []*resource.Type
	for _, a := range s.types {
		switch {
		case l.knows(a.typ):
		case now.Sub(a.since) >= blameFor:
			l.learn(a.typ)
		default:
			suspects = append(suspects, a.typ)
		}
	}
	slices.SortFunc(suspects, func(a, b *resource.Type) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.URL, b.URL))
	})
	if len(l.known) == 0 && len(suspects) > 0 {
		suspects = suspects[1:] // something has to stay
	}
	c := &charge{types: suspects, points: end.against(), why: end.err, conn: s.conn}
	switch {
	case c.points == maybe:
		l.owed = c
	case c.points > 0:
		r.press(l, c, now)
	}
}

// confirm deals with a charge that counts only if the connection has outlived the
// stream: a server that goes away, or is cut off, says nothing about types.
func (r *runner) confirm(l *link, now time.Time) {
	c := l.owed
	l.owed = nil
	if c != nil && c.conn == l.session.conn {
		r.press(l, c, now)
	}
}

// press counts a charge, and sets apart of which there is proof.
func (r *runner) press(l *link, c *charge, now time.Time) {
	for _, t := range c.types {
		if l.doubts == nil {
			l.doubts = make(map[string]int)
		}
		if l.doubts[t.URL] += c.points; l.doubts[t.URL] >= proof {
			r.setApart(l, t, c.why, now.Add(spreadOut(firstProbe)))
		}
	}
}

func (l *link) knows(t *resource.Type) bool {
	_, is := l.known[t.URL]
	return is
}

// setsApart reports whether a type is asked for on a second stream.
func (l *link) setsApart(t *resource.Type) bool { return l.apart[t.URL] != nil }

// base is the link whose trial the streams of l belong to.
func (l *link) base() *link {
	if l.of != nil {
		return l.of
	}
	return l
}

// learn notes that a type does no harm.
func (l *link) learn(t *resource.Type) {
	if l.known == nil {
		l.known = make(map[string]struct{})
	}
	l.known[t.URL] = struct{}{}
	delete(l.doubts, t.URL)
}

// takes reports whether a type is to be asked for on s, and sees to it that it is
// asked for elsewhere if not.
func (r *runner) takes(s *session, t *resource.Type, now time.Time) bool {
	l := s.link
	if l.probes != nil {
		return l.probes.typ.URL == t.URL
	}
	if sus := l.apart[t.URL]; sus != nil {
		if sus.idle {
			r.setIdle(l, sus, false)
		}
		return false
	}
	if l.wary && len(l.known) > 0 && s.types[t.URL] == nil && !l.knows(t) {
		r.setApart(l, t, nil, now)
		return false
	}
	return true
}

// setApart keeps a type from the streams of l. why is nil where that is but caution.
func (r *runner) setApart(l *link, t *resource.Type, why error, due time.Time) {
	if l.apart == nil {
		l.apart = make(map[string]*suspect)
	}
	sus := &suspect{typ: t, pause: 2 * firstProbe, due: due}
	l.apart[t.URL] = sus
	if why != nil {
		r.blame(l, sus, why)
	}
}

// blame tells once that a stream has ended since it was asked for a type.
func (r *runner) blame(l *link, sus *suspect, why error) {
	if !sus.said {
		sus.said = true
		l.server.journal.setApart(string(r.feed.Key()), sus.typ.URL, why)
		r.show(l, sus, true)
	}
}

// setIdle notes whether something of a suspect is wanted.
func (r *runner) setIdle(l *link, sus *suspect, idle bool) {
	if sus.idle != idle {
		sus.idle = idle
		r.show(l, sus, !idle)
	}
}

// show shows operators a suspect that ended a stream, or that this is over.
func (r *runner) show(l *link, sus *suspect, apart bool) {
	if !sus.said {
		return
	}
	n := int64(1)
	if !apart {
		n = -1
	}
	r.cp.metrics.setApart(n)
	l.server.journal.note(string(r.feed.Key()), sus.typ.URL, apart)
}

// rejoin takes back a type that was set apart, and asks for it like for all others.
func (r *runner) rejoin(l *link, sus *suspect) {
	l.learn(sus.typ)
	delete(l.apart, sus.typ.URL)
	r.show(l, sus, false)
	if s := l.session; s != nil {
		r.askAlone(s, sus.typ)
	}
	if sus.said {
		l.server.journal.rejoined(string(r.feed.Key()), sus.typ.URL)
	}
}

// quit forgets what l has set apart, for its end.
func (r *runner) quit(l *link) {
	r.stopProbe(l)
	for _, sus := range l.apart {
		r.setIdle(l, sus, true)
	}
	l.apart = nil
}

// spreadOut makes a pause up to 20 % longer or shorter.
func spreadOut(pause time.Duration) time.Duration {
	return pause*4/5 + rand.N(pause*2/5)
}
