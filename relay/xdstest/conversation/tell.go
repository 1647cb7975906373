package conversation

import (
	"fmt"
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"xdsrelay/relay/xdstest"
)

// message is what a client is about to send about a type, in either variant.
type message struct {
	typeURL string
	typed   string // type_url of the message, normally typeURL

	names []string // SotW: the whole list

	subscribe, unsubscribe []string          // delta
	initial                map[string]string // delta

	version string
	nonce   string
	nack    *statuspb.Status
	node    *corev3.Node // instead of the client's own
	noNode  bool

	locators []*discoveryv3.ResourceLocator // resource_locators, or those to subscribe to
}

// send sends a message, with the node if it is the first of its stream, and
// remembers what it says.
func (c *client) send(s *stream, m message) {
	t := s.topic(m.typeURL)
	node := m.node
	if node == nil && !s.spoken && !m.noNode {
		node = c.node
	}
	s.spoken = true
	first := !t.asked
	t.asked = true
	if !s.delta {
		t.names = m.names
		t.legacy = t.legacy && len(m.names) == 0
		t.forgetUncovered()
		s.Send(&discoveryv3.DiscoveryRequest{
			Node: node, TypeUrl: m.typed, ResourceNames: m.names, VersionInfo: m.version,
			ResponseNonce: m.nonce, ErrorDetail: m.nack, ResourceLocators: m.locators,
		})
		return
	}
	t.subscribe(first, m.subscribe, m.unsubscribe)
	s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: node, TypeUrl: m.typed, ResourceNamesSubscribe: m.subscribe, ResourceNamesUnsubscribe: m.unsubscribe,
		InitialResourceVersions: m.initial, ResponseNonce: m.nonce, ErrorDetail: m.nack,
		ResourceLocatorsSubscribe: m.locators,
	})
}

// subscribe takes the lists of a delta request in (B23).
func (t *topic) subscribe(first bool, add, drop []string) {
	switch {
	case first:
		t.legacy = t.legacy && len(add) == 0 && !slices.Contains(drop, xdstest.Wildcard)
		t.names = nil
	case t.legacy && slices.Contains(drop, xdstest.Wildcard):
		t.legacy = false
	}
	for _, n := range add {
		if !slices.Contains(t.names, n) {
			t.names = append(t.names, n)
		}
	}
	t.names = slices.DeleteFunc(t.names, func(n string) bool { return slices.Contains(drop, n) })
	if !first { // at first, what is held without being covered is to be removed
		t.forgetUncovered()
	}
}

// change is a request that changes what the client wants, without an answer to
// anything.
func (c *client) change(typeURL string, add, drop []string) error {
	s, err := c.streamFor(typeURL)
	if err != nil {
		return err
	}
	t := s.topic(typeURL)
	m := message{typeURL: typeURL, typed: typeURL, subscribe: add, unsubscribe: drop}
	if !s.delta {
		m.names, m.version, m.nonce = t.with(add, drop), t.version, t.nonce
	}
	c.send(s, m)
	return nil
}

// with is the list of names after a change.
func (t *topic) with(add, drop []string) []string {
	names := slices.Clone(t.names)
	for _, n := range add {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return slices.Contains(drop, n) })
}

// answer accepts the frame that waits, or rejects it, perhaps with a change.
func (c *client) answer(typeURL string, nack *statuspb.Status, add, drop []string) error {
	s, t, err := c.speaking(typeURL)
	if err != nil {
		return err
	}
	f := t.waiting
	if f == nil {
		return fmt.Errorf("%s has got nothing of %s that it has not answered", c.name, typeWord(typeURL))
	}
	t.settle(nack == nil)
	m := message{typeURL: typeURL, typed: typeURL, nonce: f.Nonce, nack: nack, subscribe: add, unsubscribe: drop}
	if !s.delta {
		m.names, m.version = t.with(add, drop), t.version
	}
	c.send(s, m)
	return nil
}

// settle notes that the frame that waits is being answered.
func (t *topic) settle(accepted bool) {
	t.nonce = t.waiting.Nonce
	if accepted {
		t.version, t.held = t.waiting.Version, maps.Clone(t.shown)
	} else {
		t.shown = maps.Clone(t.held)
	}
	t.waiting = nil
}

// rejection is the error_detail of a NACK.
func rejection(reason string) *statuspb.Status {
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: reason}
}

// reconnect opens the client's streams anew and says on them what a client that
// comes back says (B37, B39, C1): all names, with the versions that it holds
// unless it has forgotten them.
func (c *client) reconnect(forgetful bool) error {
	old := c.streams
	c.leave()
	for _, key := range slices.Sorted(maps.Keys(old)) {
		for _, typeURL := range slices.Sorted(maps.Keys(old[key].topics)) {
			if err := c.resume(typeURL, old[key].topics[typeURL], forgetful); err != nil {
				return err
			}
		}
	}
	return nil
}

// resume is the first request of a type after a reconnect.
func (c *client) resume(typeURL string, before *topic, forgetful bool) error {
	s, err := c.streamFor(typeURL)
	if err != nil {
		return err
	}
	m := message{typeURL: typeURL, typed: typeURL, names: before.names, subscribe: before.names}
	if before.legacy && len(before.names) > 0 { // delta: an empty list would no longer say it
		m.subscribe = append([]string{xdstest.Wildcard}, before.names...)
	}
	t := s.topic(typeURL)
	if !forgetful {
		m.version, t.version = before.version, before.version
		t.held, t.shown = before.held, maps.Clone(before.held)
		m.initial = versionsOf(before.held)
	}
	c.send(s, m)
	return nil
}

func versionsOf(held map[string]holding) map[string]string {
	versions := make(map[string]string, len(held))
	for n, h := range held {
		versions[n] = h.version
	}
	return versions
}

// leave ends all streams and forgets everything.
func (c *client) leave() {
	for _, s := range c.streams {
		s.Cancel()
	}
	c.streams = make(map[string]*stream)
}
