package xdsclient

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cenkalti/backoff/v5"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/pause"
)

// run keeps a stream open until the client is closed.
func (c *Client) run() {
	defer close(c.done)
	var conn *grpc.ClientConn
	var at string // where conn leads
	hangUp := func() {
		if conn != nil {
			_ = conn.Close()
		}
	}
	defer func() { hangUp() }()
	pauses := c.cfg.pauses()
	for c.ctx.Err() == nil {
		ctx, s, addr := c.nextSession()
		if s == nil {
			return
		}
		var err error
		if conn == nil || at != addr {
			hangUp()
			conn, err = c.dial(addr)
			at = addr
		}
		answered := false
		if err == nil {
			answered, err = c.stream(ctx, conn, s, addr)
		} else {
			c.failed(err)
		}
		changed := c.endSession(s, err)
		if answered {
			pauses.Reset()
		} else { // C13
			pause.Unless(c.ctx, pauses.NextBackOff(), changed)
		}
	}
}

// pauses returns the waits after streams without an answer.
func (cfg *Config) pauses() *backoff.ExponentialBackOff {
	p := &backoff.ExponentialBackOff{InitialInterval: cfg.Backoff, Multiplier: 1.6, RandomizationFactor: 0.2, MaxInterval: cfg.LongestBackoff}
	if cfg.LongestBackoff <= cfg.Backoff {
		p.InitialInterval, p.Multiplier, p.RandomizationFactor = cfg.LongestBackoff, 1, 0
	}
	p.Reset()
	return p
}

// dial makes a connection, which is used and made with the first stream.
func (c *Client) dial(addr string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr, c.cfg.DialOptions...)
	if err != nil {
		return nil, fmt.Errorf("make a client of %q: %w", addr, err)
	}
	return conn, nil
}

// nextSession waits until the client may connect. Canceling the session, even before its stream is
// open, makes the client choose its server again. The session is nil if the client was closed.
func (c *Client) nextSession() (context.Context, *session, string) {
	for {
		c.mu.Lock()
		if !c.offline {
			ctx, cancel := context.WithCancel(c.ctx)
			c.session = &session{cancel: cancel, nonces: make(map[string]bool)}
			s, addr := c.session, c.addr
			c.mu.Unlock()
			if c.cfg.Next != nil {
				addr = c.cfg.Next()
			}
			return ctx, s, addr
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.ctx.Done():
			return nil, nil, ""
		}
	}
}

// endSession notes that a session is over. changed is closed with the next change after that.
func (c *Client) endSession(s *session, why error) (changed <-chan struct{}) {
	s.cancel()
	c.cfg.Log("stream ended: %v", why)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
	c.stats.LastEnd = why
	c.signalLocked()
	return c.changed
}

// stream is one life of the stream; it reports whether the server answered.
func (c *Client) stream(ctx context.Context, conn *grpc.ClientConn, s *session, addr string) (answered bool, err error) {
	gs, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, c.cfg.Variant.Method(), grpc.WaitForReady(c.cfg.Next == nil))
	if err != nil {
		if ctx.Err() == nil {
			c.failed(err)
		}
		return false, err
	}
	commit(gs)
	c.notify(Event{Addr: addr})
	defer func() { c.notify(Event{Addr: addr, Ended: true, Err: err, Own: ctx.Err() != nil}) }()
	c.begin(s, gs, addr)
	for {
		if c.cfg.BeforeRead != nil {
			c.cfg.BeforeRead(ctx)
		}
		f, err := ReadFrame(gs, c.cfg.Variant.Delta)
		if err != nil {
			return answered, err
		}
		answered = true
		c.notify(Event{Addr: addr, Frame: f})
		c.handle(ctx, s, f)
	}
}

// notify passes an event on.
func (c *Client) notify(e Event) {
	if c.cfg.Watch != nil {
		c.cfg.Watch(e)
	}
}

// failed passes on that a stream did not open.
func (c *Client) failed(err error) {
	if c.cfg.Failed != nil {
		c.cfg.Failed(err)
	}
}

// commit keeps gRPC from moving a stream that the server has not seen yet to
// another connection. It would do so under a lock that sending needs, which
// [testing/synctest] cannot wait for.
func commit(gs grpc.ClientStream) { _ = gs.Context() }

// begin states on a new stream the subscriptions and what is held (C1, C8).
func (c *Client) begin(s *session, gs grpc.ClientStream, addr string) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	c.cfg.Log("stream opened to %s", addr)
	s.grpc = gs
	c.stats.Streams++
	var messages []proto.Message
	for _, u := range InPushOrder(slices.Collect(maps.Keys(c.types))) {
		t := c.types[u]
		t.newStream()
		if t.wantsAnything() {
			messages = append(messages, c.openLocked(t)...)
		}
	}
	c.signalLocked()
	c.mu.Unlock()
	c.send(s, messages)
}

// change alters the subscription of a type and sends that to the server.
func (c *Client) change(typeURL string, alter func(*typeState) subChange) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	t := c.types[typeURL]
	if t == nil {
		t = newTypeState(typeURL)
		c.types[typeURL] = t
	}
	d := alter(t)
	s := c.session
	var messages []proto.Message
	switch {
	case s == nil || s.grpc == nil || d.empty(): // begin will send it, or there is nothing to send
	case !t.opened && !t.wantsAnything():
	case !t.opened:
		messages = c.openLocked(t)
	case c.cfg.Variant.Delta:
		messages = []proto.Message{&discoveryv3.DeltaDiscoveryRequest{
			TypeUrl: typeURL, ResourceNamesSubscribe: d.subscribe, ResourceNamesUnsubscribe: d.unsubscribe,
		}}
	case !t.pending: // otherwise the answer that is due will carry it (C3)
		messages = t.sotwRequests()
		if c.cfg.Trusting {
			clear(t.left) // has been sent
		}
		if c.cfg.Forgetful && !t.wantsAnything() {
			t.nonce, t.accepted = "", ""
		}
	}
	c.signalLocked()
	c.mu.Unlock()
	c.send(s, messages)
}

// openLocked builds a type's first request on a stream. c.mu is held.
func (c *Client) openLocked(t *typeState) []proto.Message {
	if !c.cfg.Variant.Delta {
		return t.sotwRequests()
	}
	t.opened = true
	m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: t.typeURL, InitialResourceVersions: t.versions()}
	if !t.legacyWild() {
		m.ResourceNamesSubscribe = t.wanted()
	}
	return []proto.Message{m}
}

// sotwRequests builds what a SotW client sends to state its subscription of a type.
func (t *typeState) sotwRequests() []proto.Message { return t.sotwNames(t.wanted(), nil) }

// sotwAnswers builds its answer to the response with t.nonce.
func (t *typeState) sotwAnswers(nack *statuspb.Status) []proto.Message {
	all, sure := t.wanted(), t.sure()
	clear(t.left)
	if len(sure) == len(all) {
		return t.sotwNames(all, nack)
	}
	return append(t.sotwNames(sure, nack), t.sotwNames(all, nil)...)
}

// sotwNames builds the requests that make names the subscription.
func (t *typeState) sotwNames(names []string, nack *statuspb.Status) []proto.Message {
	request := func(names ...string) proto.Message {
		if t.nonce == "" {
			t.blind++
		}
		t.opened, t.explicit = true, t.explicit || len(names) > 0
		m := &discoveryv3.DiscoveryRequest{
			TypeUrl: t.typeURL, VersionInfo: t.accepted, ResourceNames: names, ResponseNonce: t.nonce, ErrorDetail: nack,
		}
		nack = nil // sent once
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

// legacyWild reports whether a first request without names states the subscription (B20).
func (t *typeState) legacyWild() bool {
	return t.wild && len(t.names) == 0 && WildcardCapable(t.typeURL)
}

// handle checks, takes in and answers one response.
func (c *Client) handle(ctx context.Context, s *session, f *Frame) {
	c.cfg.Log("<- %s", f)
	c.mu.Lock()
	c.stats.Frames++
	t := c.checkLocked(s, f)
	if t == nil { // O12: a type that is not on this stream is not answered
		c.signalLocked()
		c.mu.Unlock()
		return
	}
	t.pending = true
	c.mu.Unlock()

	nack, unusable := c.judge(f)
	if nack == nil || len(unusable) > 0 {
		c.mu.Lock()
		t.apply(f, unusable)
		c.signalLocked()
		c.mu.Unlock()
	}
	if c.cfg.BeforeAck != nil {
		c.cfg.BeforeAck(ctx, f)
	}

	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	c.mu.Lock()
	t.pending, t.nonce = false, f.Nonce
	messages := []proto.Message{&discoveryv3.DeltaDiscoveryRequest{TypeUrl: f.TypeURL, ResponseNonce: f.Nonce, ErrorDetail: nack}}
	if !c.cfg.Variant.Delta {
		messages = t.sotwAnswers(nack)
	}
	if nack == nil {
		c.stats.Acks++
	} else {
		c.stats.Nacks++
	}
	c.signalLocked()
	c.mu.Unlock()
	c.send(s, messages)
}

// mostReasons is how many resources the message of a NACK names.
const mostReasons = 10

// judge asks whether a frame is rejected, and if so whether as a whole or for
// some of its resources.
func (c *Client) judge(f *Frame) (nack *statuspb.Status, unusable map[string]bool) {
	reject := func(reason string) {
		nack = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}
	}
	if c.cfg.Nack != nil {
		if reason := c.cfg.Nack(f); reason != "" {
			reject(reason)
			return nack, nil
		}
	}
	if c.cfg.Reject == nil {
		return nil, nil
	}
	unusable = make(map[string]bool)
	var reasons []string
	for _, r := range f.Resources {
		if r.Body == nil {
			continue
		}
		if reason := c.cfg.Reject(f.TypeURL, r); reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s", r.Name, reason))
			unusable[r.Name] = true
		}
	}
	if more := len(reasons) - mostReasons; more > 0 {
		reasons = append(reasons[:mostReasons], fmt.Sprintf("and %d more", more))
	}
	if len(reasons) > 0 {
		reject(strings.Join(reasons, "; "))
	}
	return nack, unusable
}

// checkLocked notes what is wrong with a frame and returns its type, nil if nothing of the type was
// asked for on this stream. c.mu is held.
func (c *Client) checkLocked(s *session, f *Frame) *typeState {
	var wrong []string
	switch {
	case f.Nonce == "":
		wrong = append(wrong, fmt.Sprintf("B5: no nonce in %s", f))
	case s.nonces[f.Nonce]:
		wrong = append(wrong, fmt.Sprintf("B5: nonce was used before: %s", f))
	}
	s.nonces[f.Nonce] = true
	t := c.types[f.TypeURL]
	if t == nil || !t.opened {
		wrong, t = append(wrong, fmt.Sprintf("B4: type was not asked for: %s", f)), nil
	} else {
		t.frames++
		if c.cfg.Overdue != nil {
			t.overdue = c.cfg.Overdue()
		}
		wrong = append(wrong, t.check(f)...)
	}
	for _, w := range wrong {
		c.cfg.Log("violation: %s", w)
	}
	c.violations = append(c.violations, wrong[:min(len(wrong), mostViolations-len(c.violations))]...)
	return t
}

// send sends requests on the session's stream, the node with the first. A request that cannot be sent
// is dropped: the stream is over then, and the next one begins by stating everything. c.sendMu is held.
func (c *Client) send(s *session, messages []proto.Message) {
	for _, m := range messages {
		if !s.nodeSent {
			s.nodeSent = true
			switch m := m.(type) {
			case *discoveryv3.DiscoveryRequest:
				m.Node = c.cfg.Node
			case *discoveryv3.DeltaDiscoveryRequest:
				m.Node = c.cfg.Node
			}
		}
		c.cfg.Log("-> %s", RequestOf(m))
		if err := s.grpc.SendMsg(m); err != nil {
			c.cfg.Log("could not send: %v", err)
			return
		}
	}
}
