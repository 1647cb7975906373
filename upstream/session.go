package upstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
)

// errRenewed ends a stream on which a change of the wildcard subscription would leave the
// two sides with different views. On SotW: the wildcard is subscribed after names or again,
// or unsubscribed in its legacy form. Naming something first would do as well, but a server
// ignores such a request where it crosses a response (B8). On delta: see joinIsAmbiguous.
var errRenewed = errors.New("stream reopened for a wildcard subscription")

// session is one stream: what was asked on it and what is still to be said.
type session struct {
	// Fixed after construction.
	link   *link
	stream grpc.ClientStream // the link's goroutine receives, the runner sends
	cancel context.CancelCauseFunc
	opened time.Time
	conn   string // this side's address of the connection, "" if not known

	// Owned by the runner.
	node     *corev3.Node // for the first message, nil once it was sent
	broken   bool         // sending failed: the receiver will say why
	up       bool         // the server takes part; see runner.settle
	mute     bool         // it does by its silence alone
	settleAt time.Time    // when silence may count as taking part
	missed   bool         // the demand was taken for another stream (C15)
	types    map[string]*asked
	absences absences
	// largest is the size of the largest request, and largestType what it asked for.
	largest     int
	largestType *resource.Type
}

// asked is what a stream has asked for of one type.
type asked struct {
	typ   *resource.Type
	since time.Time // when it was asked for last
	// wild says that the wildcard is subscribed; legacy that this was said by
	// leaving the names out (D10).
	wild, legacy bool
	// names is the list of the last request, and named says that any request
	// had one (SotW).
	names []string
	named bool
	// heard are the names of the last answer, without the wildcard, and left
	// those that a request since then left out, by canonical name (SotW, B8).
	heard []string
	left  map[string]dropped
	// nonce is the newest one (C2).
	nonce string
	// edits is how many requests have changed the subscription, and unsubscribed says
	// that one of them unsubscribed from something (delta).
	edits        uint64
	unsubscribed bool
	// claims stands for what was claimed when it was asked first; see [cache.Feed.Claims] (delta).
	claims uint64
	// errored is what the owner of a followed key was sent of errors (delta).
	errored cache.SharedErrors
	// rejected are canonical names of which an unusable copy came: they exist (C12).
	rejected map[string]struct{}
	// refusals counts NACKs since the last good response; repeats how often the
	// response at version, of lastAt, has come again without any news; late is
	// an answer that waits until lateAt for such a reason.
	refusals, repeats int
	version           string
	lastAt            time.Time
	late              *reply
	lateAt            time.Time
	// settledAt is when the frames of a large answer are taken to be complete;
	// sweepAt when what another server left is removed. Zero if not pending.
	settledAt, sweepAt time.Time
}

// settleAfter is how long a stream must have stood before silence can mean that
// the server has nothing to say.
const settleAfter = time.Second

func newSession(l *link, stream grpc.ClientStream, cancel context.CancelCauseFunc) *session {
	now, conn := time.Now(), ""
	if p, ok := peer.FromContext(stream.Context()); ok && p.LocalAddr != nil {
		conn = p.LocalAddr.String()
	}
	return &session{
		link: l, stream: stream, cancel: cancel, opened: now, conn: conn, settleAt: now.Add(settleAfter),
		types: make(map[string]*asked), absences: absences{after: l.server.owner.cfg.AbsentAfter},
	}
}

// send sends one message about a type. It may block while the server takes nothing, for the
// send timeout at most.
func (s *session) send(t *resource.Type, m proto.Message) {
	if s.broken {
		return
	}
	size := proto.Size(m)
	if size > s.largest {
		s.largest, s.largestType = size, t
	}
	s.link.server.owner.metrics.request(size)
	err := sendWithin(s.link.server.owner.cfg.SendTimeout, s.stream, s.cancel, m)
	s.broken = err != nil // the receiver is told why
}

// sendWithin sends one message, and cancels a stream whose server takes nothing
// for the time of limit.
func sendWithin(limit time.Duration, stream grpc.ClientStream, cancel context.CancelCauseFunc, m proto.Message) error {
	watchdog := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("the server took no request for %v", limit))
	})
	defer watchdog.Stop()
	return stream.SendMsg(m)
}

// takeNode returns the node once: it goes into the first message (C1).
func (s *session) takeNode() *corev3.Node {
	n := s.node
	s.node = nil
	return n
}

// request sends a subscription or an answer. nonce and refusal are those of the
// answer; a subscription has none on delta (C6) and repeats the newest on SotW
// (C2).
//
// A delta request may be sent in parts; unclaimed are the names whose versions did not
// fit.
func (s *session) request(a *asked, m message) (unclaimed []string) {
	if !s.link.server.owner.cfg.Delta {
		s.send(a.typ, m.sotw(a, s.takeNode()))
		return nil
	}
	parts, rest := m.divide(s.link.server.limit.most())
	for _, part := range parts {
		if len(part.subscribe)+len(part.unsubscribe) > 0 {
			a.edits++
		}
		s.send(a.typ, part.delta(a, s.takeNode()))
	}
	return rest
}

// flush sends an answer that waits, so that nothing overtakes it (C3).
func (s *session) flush(a *asked) {
	if n := a.late; n != nil {
		a.late, a.lateAt = nil, time.Time{}
		names := a.names
		if len(n.again) > 0 {
			a.names = without(names, n.again)
		}
		a.heard = plain(a.names)
		s.request(a, message{version: n.version, nonce: n.nonce, refusal: n.refusal})
		if len(n.again) > 0 {
			a.names = names
			s.request(a, message{version: n.version, nonce: n.nonce})
		}
	}
}

// reply sends an answer after a delay, or at once if that is zero.
func (s *session) reply(a *asked, what *reply, at time.Time, delay time.Duration) {
	a.late = what
	if delay == 0 {
		s.flush(a)
		return
	}
	a.lateAt = at.Add(delay)
}

// next is when the session needs a look, zero for never.
func (s *session) next() time.Time {
	at := s.absences.next()
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(s.settleAt)
	for _, a := range s.types {
		sooner(a.lateAt)
		sooner(a.settledAt)
		sooner(a.sweepAt)
	}
	return at
}

// due reports whether *at has come, and clears it if so.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || at.After(now) {
		return false
	}
	*at = time.Time{}
	return true
}

// reply is an ACK or, with a refusal, a NACK that is to be sent.
type reply struct {
	nonce, version string
	refusal        *statuspb.Status
	again          []string // to be left out, and asked for after it (SotW)
}
