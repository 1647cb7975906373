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
	"xdsrelay/upstream/conversation"
)

// errRenewed ends a stream on which a change of the wildcard subscription would leave the two sides
// with different views. On SotW: the wildcard is subscribed after names or again, or unsubscribed
// in its legacy form. Subscribing to a name first would work as well, but a server ignores such a
// request where it crosses a response (B8). On delta: see joinIsAmbiguous. It also ends a stream
// whose content other nodes' newer content has replaced, and one from before the process slept; see
// [runner.reopenReplaced].
var errRenewed = errors.New("stream reopened for a wildcard subscription, or after other nodes had newer content, or after the process was suspended")

// session is one stream: its subscriptions and the requests that are pending.
type session struct {
	// Fixed after construction.
	serverStream *serverStream
	stream       grpc.ClientStream // the goroutine of the server stream receives, the runner sends
	cancel       context.CancelCauseFunc
	opened       time.Time
	conn         string // local address of the connection, "" if unknown

	// Owned by the runner.
	node      *corev3.Node // for the first message, nil once it was sent
	broken    bool         // sending failed: the receiver returns the reason
	accepted  acceptance
	silenceAt time.Time // when silence may count as up
	types     map[string]*asked
	absences  absences
	// largest is the size of the largest request, and largestType its type.
	largest     int
	largestType *resource.Type
}

// acceptance is what shows that the server accepts a stream. It only grows.
type acceptance uint8

const (
	// unaccepted: nothing yet. The stream counts as down.
	unaccepted acceptance = iota
	// bySilence: it has been open for a while, and nothing is missing; see [runner.acceptSilence].
	bySilence
	// byAnswer: the server has sent something.
	byAnswer
)

// up reports whether the server has accepted the stream.
func (s *session) up() bool { return s.accepted != unaccepted }

// asked is the subscription of a stream to one type: the conversation about it, and what the runner
// keeps with it.
type asked struct {
	conversation.Conversation
	since time.Time // time of the last request that changed it
	// edits is how many requests have changed the subscription (delta).
	edits uint64
	// claims identifies the content that the stream began with, whose versions the first request
	// sent (delta); see [cache.Feed.Claims].
	claims uint64
	// errored is which errors were sent to the owner of a followed key (delta).
	errored cache.SharedErrors
	// rejected are canonical names of resources that were rejected: they exist (C12).
	rejected map[string]struct{}
	// carried identifies the pending changes of which the newest response with content has some; the zero
	// value is none.
	carried resource.Digest
	// reply is the one that the conversation owes, at replyAt. deferred is the response whose reply waits for
	// canaries; nil for none.
	reply    reply
	deferred *resource.Response
	// replyAt, completeAt and sweepAt are when the reply is sent, when the frames of a large answer
	// count as complete, and when resources of another server are removed. Zero if not pending.
	replyAt, completeAt, sweepAt time.Time
}

// silenceAfter is how long a stream must have been open before silence can mean that the server has
// nothing to send.
const silenceAfter = time.Second

func newSession(l *serverStream, stream grpc.ClientStream, cancel context.CancelCauseFunc) *session {
	now, conn := time.Now(), ""
	if p, ok := peer.FromContext(stream.Context()); ok && p.LocalAddr != nil {
		conn = p.LocalAddr.String()
	}
	return &session{
		serverStream: l, stream: stream, cancel: cancel, opened: now, conn: conn, silenceAt: now.Add(silenceAfter),
		types: make(map[string]*asked), absences: absences{after: l.server.owner.cfg.AbsentAfter},
	}
}

// send sends one message about a type. It may block while the server reads nothing, for the send
// timeout at most.
func (s *session) send(t *resource.Type, m proto.Message) {
	if s.broken {
		return
	}
	size := proto.Size(m)
	if size > s.largest {
		s.largest, s.largestType = size, t
	}
	s.serverStream.server.owner.metrics.request(size)
	err := sendWithin(s.serverStream.server.owner.cfg.SendTimeout, s.stream, s.cancel, m)
	s.broken = err != nil // the receiver returns the reason
}

// sendWithin sends one message. It cancels a stream whose server reads nothing for the duration of
// limit.
func sendWithin(limit time.Duration, stream grpc.ClientStream, cancel context.CancelCauseFunc, m proto.Message) error {
	watchdog := time.AfterFunc(limit, func() {
		cancel(fmt.Errorf("the server read no request for %v", limit))
	})
	defer watchdog.Stop()
	return stream.SendMsg(m)
}

// takeNode returns the node once: it belongs in the first message (C1).
func (s *session) takeNode() *corev3.Node {
	n := s.node
	s.node = nil
	return n
}

// request sends a subscription or an answer. nonce and errorDetail are set for an answer. A
// subscription has no nonce on delta (C6) and repeats the newest on SotW (C2).
//
// A delta request may be sent in parts; unclaimed are the names whose versions did not fit.
func (s *session) request(a *asked, m message) (unclaimed []string) {
	if !s.serverStream.server.owner.cfg.Delta {
		s.send(a.Type, m.sotw(a, s.takeNode()))
		return nil
	}
	parts, rest := m.divide(s.serverStream.server.limit.most())
	for _, part := range parts {
		if len(part.subscribe)+len(part.unsubscribe) > 0 {
			a.edits++
		}
		s.send(a.Type, part.delta(a, s.takeNode()))
	}
	return rest
}

// flush sends a reply that is owed; see [runner.flush].
func (s *session) flush(a *asked) {
	if !a.OwesReply() {
		return
	}
	n := a.reply
	a.reply, a.replyAt = reply{}, time.Time{}
	s.request(a, message{names: a.Replied(n.omit), version: n.version, nonce: n.nonce, errorDetail: n.errorDetail})
	if len(n.omit) > 0 {
		s.request(a, message{names: a.Names, version: n.version, nonce: n.nonce})
	}
}

// reply sends the reply that is owed after a delay, or at once if that is zero.
func (s *session) reply(a *asked, what reply, at time.Time, delay time.Duration) {
	a.reply = what
	if delay == 0 {
		s.flush(a)
		return
	}
	a.replyAt = at.Add(delay)
}

// next returns when the session has something to do, zero for never.
func (s *session) next() time.Time {
	at := s.absences.next()
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(s.silenceAt)
	for _, a := range s.types {
		sooner(a.replyAt)
		sooner(a.completeAt)
		sooner(a.sweepAt)
	}
	return at
}

// due reports whether *at has passed, and clears it if so.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || at.After(now) {
		return false
	}
	*at = time.Time{}
	return true
}

// reply is an ACK, or a NACK if errorDetail is set.
type reply struct {
	nonce, version string
	errorDetail    *statuspb.Status
	omit           []string // names to omit, and to subscribe again after it (SotW)
}
