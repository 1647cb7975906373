package upstream

import (
	"time"

	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/upstream/conversation"
)

// A rollout gives canaries first what a response changes. With a policy, the ACK waits for their answer for
// a bounded time, and is a NACK if they reject it (K1). If they reject it later, one more request with the
// nonce of the newest response reports that (K2): it repeats the version that was accepted, so a server that
// compares versions does not send the response again. While the ACK waits, no other request of the type is
// sent (C3): the demand is taken after it.

// defers reports whether the reply to a response of a type waits for canaries.
func (r *runner) defers(t *resource.Type) bool {
	for s := range r.streams() {
		if a := s.types[t.URL]; a != nil && a.Reply == conversation.Deferred {
			return true
		}
	}
	return false
}

// deferReply makes the ACK of a valid response wait for canaries.
func (r *runner) deferReply(a *asked, rsp *resource.Response, owed reply, now time.Time, wait time.Duration) {
	a.Defer(rsp, now)
	a.reply, a.replyAt, a.deferred = owed, now.Add(wait), rsp
}

// flush sends the reply to the newest response, so that no later request overtakes it (C3). One that waits
// for canaries is an ACK.
func (r *runner) flush(s *session, a *asked) {
	if a.Reply == conversation.Deferred {
		if s.stream.Context().Err() == nil { // otherwise the next stream may have to repeat no version; see renew
			r.content.Accepted(a.Type, a.deferred.Version)
		}
		r.cp.metrics.response(a.deferred, outcomeAck)
		a.deferred = nil
		a.Pass()
	}
	s.flush(a)
}

// judge reports the verdicts of canaries to the control plane.
func (r *runner) judge() {
	verdicts := r.feed.TakeVerdicts()
	for i := range verdicts {
		v := &verdicts[i]
		for s := range r.streams() {
			if a := s.types[v.Type.URL]; a != nil && a.carried == v.Change && v.Change != (resource.Digest{}) {
				r.judgeType(s, a, v)
			}
		}
	}
}

// judgeType sends the reply that waits, or the report if it was sent.
func (r *runner) judgeType(s *session, a *asked, v *cache.Verdict) {
	waits := a.Reply == conversation.Deferred
	if v.Outcome == cache.VerdictPasses || v.Outcome == cache.VerdictFailsInTime && !waits {
		if waits {
			r.flush(s, a)
		}
		return
	}
	if !waits {
		r.flush(s, a) // an ACK that is delayed
	}
	journal := s.serverStream.server.journal
	detail := &statuspb.Status{Code: int32(codes.InvalidArgument), Message: shorten(v.Reason, maxErrorDetail)}
	version := r.content.Version(s.serverStream.server.address, a.Type) // C4
	switch report := a.Fail(); {
	case report:
		s.request(a, message{names: a.Names, version: version, nonce: a.Nonce, errorDetail: detail})
		journal.reportedRejection(a.Type.URL, detail.GetMessage())
	case waits:
		r.cp.metrics.response(a.deferred, outcomeNack)
		a.deferred = nil
		a.reply.version, a.reply.errorDetail = version, detail
		journal.nacked(a.Type.URL, detail.GetMessage())
		s.flush(a)
	}
}
