package xdstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// run keeps a stream open until the client is closed.
func (a *Auto) run() {
	defer close(a.done)
	var cc *grpc.ClientConn
	var at string // where cc leads
	hangUp := func() {
		if cc != nil {
			_ = cc.Close()
		}
	}
	defer func() { hangUp() }()
	busy := 0 // streams in a row that had an answer and ended in no time
	for a.ctx.Err() == nil {
		ctx, s, addr := a.nextSession()
		if s == nil {
			return
		}
		if at != addr {
			hangUp()
			var err error
			cc, err = grpc.NewClient("passthrough:///"+addr, dialOptions(a.cfg.DialOptions)...)
			if err != nil { // the options are wrong; nothing would mend that
				a.endSession(s, fmt.Errorf("make a client of %s: %w", addr, err))
				return
			}
			at = addr
		}
		began := time.Now()
		answered, err := a.stream(ctx, cc, s, addr)
		if busy++; !answered || time.Since(began) > 0 || ctx.Err() != nil {
			busy = 0
		}
		changed := a.endSession(s, err)
		if busy == mostBusy {
			a.tooBusy = fmt.Errorf("%d streams in a row had an answer and ended in no time: %w", busy, err)
			a.log.add("%v", a.tooBusy)
		}
		if !answered || busy >= mostBusy { // C13
			a.pause(cmp.Or(a.cfg.Backoff, 20*time.Millisecond), changed)
		}
	}
}

// mostBusy is how many streams in a row may have an answer and end without time passing,
// as it can only with [testing/synctest]. In real time, such a server and its clients
// would keep each other busy; in virtual time, no test would end.
const mostBusy = 100

// nextSession waits until the client may connect. Cancelling the session, even
// before its stream is open, makes the client choose anew where to go.
func (a *Auto) nextSession() (context.Context, *autoSession, string) {
	for {
		a.mu.Lock()
		if !a.offline {
			ctx, cancel := context.WithCancel(a.ctx)
			a.session = &autoSession{cancel: cancel, nonces: make(map[string]bool)}
			s, addr := a.session, a.addr
			a.mu.Unlock()
			if a.cfg.Next != nil {
				addr = a.cfg.Next()
			}
			return ctx, s, addr
		}
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-a.ctx.Done():
			return nil, nil, ""
		}
	}
}

func (a *Auto) endSession(s *autoSession, why error) (changed <-chan struct{}) {
	s.cancel()
	a.log.add("stream ended: %v", why)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.session = nil
	a.stats.LastEnd = why
	a.signalLocked()
	return a.changed
}

// stream is one life of the stream; it reports whether the server answered.
func (a *Auto) stream(ctx context.Context, cc *grpc.ClientConn, s *autoSession, addr string) (answered bool, err error) {
	gs, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, a.cfg.Variant.Method(), grpc.WaitForReady(a.cfg.Next == nil))
	if err != nil {
		return false, err
	}
	commit(gs)
	a.tell(AutoEvent{Addr: addr})
	defer func() { a.tell(AutoEvent{Addr: addr, Ended: true, Err: err, Own: ctx.Err() != nil}) }()
	a.begin(s, gs, addr)
	for {
		if a.cfg.BeforeRead != nil {
			a.cfg.BeforeRead(ctx)
		}
		f, err := recvFrame(gs, a.cfg.Variant.Delta)
		if err != nil {
			return answered, err
		}
		answered = true
		a.tell(AutoEvent{Addr: addr, Frame: f})
		a.handle(ctx, s, f)
	}
}

// tell tells who watches.
func (a *Auto) tell(e AutoEvent) {
	if a.cfg.Watch != nil {
		a.cfg.Watch(e)
	}
}

// commit keeps gRPC from moving a stream that the server has not seen yet to
// another connection. It would do so under a lock that sending needs, which
// [testing/synctest] cannot wait for.
func commit(gs grpc.ClientStream) { _ = gs.Context() }

// begin says on a new stream what is wanted and held (C1, C8).
func (a *Auto) begin(s *autoSession, gs grpc.ClientStream, addr string) {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	a.mu.Lock()
	a.log.add("stream opened to %s", addr)
	s.grpc = gs
	a.stats.Streams++
	var messages []proto.Message
	for _, u := range inPushOrder(slices.Collect(maps.Keys(a.types))) {
		t := a.types[u]
		t.newStream()
		if t.wantsAnything() {
			messages = append(messages, a.openLocked(t)...)
		}
	}
	a.signalLocked()
	a.mu.Unlock()
	a.send(s, messages)
}

// change alters the subscription of a type and tells the server.
func (a *Auto) change(typeURL string, alter func(*autoType) subChange) {
	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	a.mu.Lock()
	t := a.types[typeURL]
	if t == nil {
		t = newAutoType(typeURL)
		a.types[typeURL] = t
	}
	c := alter(t)
	s := a.session
	var messages []proto.Message
	switch {
	case s == nil || s.grpc == nil || c.empty(): // begin will say it, or there is nothing to say
	case !t.opened && !t.wantsAnything():
	case !t.opened:
		messages = a.openLocked(t)
	case a.cfg.Variant.Delta:
		messages = []proto.Message{&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: c.subscribe, ResourceNamesUnsubscribe: c.unsubscribe,
		}}
	case !t.pending: // otherwise the answer that is due will say it (C3)
		messages = t.sotwRequests()
		if a.cfg.Trusting {
			clear(t.left) // has been said
		}
		if a.cfg.Forgetful && !t.wantsAnything() {
			t.nonce, t.accepted = "", ""
		}
	}
	a.signalLocked()
	a.mu.Unlock()
	a.send(s, messages)
}

// openLocked builds a type's first request on a stream. a.mu is held.
func (a *Auto) openLocked(t *autoType) []proto.Message {
	if !a.cfg.Variant.Delta {
		return t.sotwRequests()
	}
	t.opened = true
	m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.typeURL, InitialResourceVersions: t.versions()}
	if !t.legacyWild() {
		m.ResourceNamesSubscribe = t.wanted()
	}
	return []proto.Message{m}
}

// sotwRequests builds what a SotW client says of a type.
func (t *autoType) sotwRequests() []proto.Message { return t.sotwNames(t.wanted(), nil) }

// sotwAnswers builds its answer to the response with t.nonce.
func (t *autoType) sotwAnswers(nack *statuspb.Status) []proto.Message {
	all, sure := t.wanted(), t.sure()
	clear(t.left)
	if len(sure) == len(all) {
		return t.sotwNames(all, nack)
	}
	return append(t.sotwNames(sure, nack), t.sotwNames(all, nil)...)
}

// sotwNames builds the requests that make names the subscription.
func (t *autoType) sotwNames(names []string, nack *statuspb.Status) []proto.Message {
	request := func(names ...string) proto.Message {
		if t.nonce == "" {
			t.blind++
		}
		t.opened, t.explicit = true, t.explicit || len(names) > 0
		m := &discoveryv3.DiscoveryRequest{
			TypeUrl: t.typeURL, VersionInfo: t.accepted, ResourceNames: names, ResponseNonce: t.nonce, ErrorDetail: nack,
		}
		nack = nil // said once
		return m
	}
	switch {
	case !t.explicit && WildcardCapable(t.typeURL) && slices.Equal(names, []string{Wildcard}):
		return []proto.Message{request()}
	case !t.explicit && WildcardCapable(t.typeURL) && len(names) == 0:
		// No names yet means everything (B20), so leaving that takes two steps.
		return []proto.Message{request(Wildcard), request()}
	default:
		return []proto.Message{request(names...)}
	}
}

// legacyWild reports whether a first request without names says what is wanted.
func (t *autoType) legacyWild() bool {
	return t.wild && len(t.names) == 0 && WildcardCapable(t.typeURL)
}

// handle checks, takes in and answers one response.
func (a *Auto) handle(ctx context.Context, s *autoSession, f *Frame) {
	a.log.add("<- %s", f)
	a.mu.Lock()
	a.stats.Frames++
	t := a.checkLocked(s, f)
	if t == nil { // O12: a type that is not on this stream is not answered
		a.signalLocked()
		a.mu.Unlock()
		return
	}
	t.pending = true
	a.mu.Unlock()

	nack, unusable := a.judge(f)
	if nack == nil || len(unusable) > 0 {
		a.mu.Lock()
		t.apply(f, unusable)
		a.signalLocked()
		a.mu.Unlock()
	}
	if a.cfg.BeforeAck != nil {
		a.cfg.BeforeAck(ctx, f)
	}

	a.sendMu.Lock()
	defer a.sendMu.Unlock()
	a.mu.Lock()
	t.pending, t.nonce = false, f.Nonce
	messages := []proto.Message{&discoveryv3.DeltaDiscoveryRequest{TypeUrl: f.TypeURL, ResponseNonce: f.Nonce, ErrorDetail: nack}}
	if !a.cfg.Variant.Delta {
		messages = t.sotwAnswers(nack)
	}
	if nack == nil {
		a.stats.Acks++
	} else {
		a.stats.Nacks++
	}
	a.signalLocked()
	a.mu.Unlock()
	a.send(s, messages)
}

// judge asks whether a frame is rejected, and if so whether as a whole or for
// some of its resources.
func (a *Auto) judge(f *Frame) (nack *statuspb.Status, unusable map[string]bool) {
	reject := func(reason string) {
		nack = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}
	}
	if a.cfg.Nack != nil {
		if reason := a.cfg.Nack(f); reason != "" {
			reject(reason)
			return nack, nil
		}
	}
	if a.cfg.Reject == nil {
		return nil, nil
	}
	unusable = make(map[string]bool)
	for _, r := range f.Resources {
		if r.Body == nil {
			continue
		}
		if reason := a.cfg.Reject(f.TypeURL, r); reason != "" {
			reject(fmt.Sprintf("%s: %s", r.Name, reason))
			unusable[r.Name] = true
		}
	}
	return nack, unusable
}

// checkLocked notes what is wrong with a frame and returns its type, nil if
// nothing of the type was asked for on this stream. a.mu is held.
func (a *Auto) checkLocked(s *autoSession, f *Frame) *autoType {
	var wrong []string
	switch {
	case f.Nonce == "":
		wrong = append(wrong, fmt.Sprintf("B5: no nonce in %s", f))
	case s.nonces[f.Nonce]:
		wrong = append(wrong, fmt.Sprintf("B5: nonce came before: %s", f))
	}
	s.nonces[f.Nonce] = true
	t := a.types[f.TypeURL]
	if t == nil || !t.opened {
		wrong, t = append(wrong, fmt.Sprintf("B4: type was not asked for: %s", f)), nil
	} else {
		t.frames++
		if a.cfg.Overdue != nil {
			t.overdue = a.cfg.Overdue()
		}
		wrong = append(wrong, t.check(f)...)
	}
	for _, w := range wrong {
		a.log.add("violation: %s", w)
	}
	a.violations = append(a.violations, wrong...)
	return t
}

// send sends requests on the session's stream, the node with the first. What
// cannot be sent is dropped: the stream is over then, and the next one begins
// by saying all. a.sendMu is held.
func (a *Auto) send(s *autoSession, messages []proto.Message) {
	for _, m := range messages {
		if !s.nodeSent {
			s.nodeSent = true
			switch m := m.(type) {
			case *discoveryv3.DiscoveryRequest:
				m.Node = a.cfg.Node
			case *discoveryv3.DeltaDiscoveryRequest:
				m.Node = a.cfg.Node
			}
		}
		a.log.add("-> %s", lineOf(m))
		if err := s.grpc.SendMsg(m); err != nil {
			a.log.add("could not send: %v", err)
			return
		}
	}
}
