package conversation

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// sent is the exact message of "sends": nothing is filled in but the node of the
// first message.
type sent struct {
	message
	node nodeChange // not nil: the client's node with these changes, whatever was sent before
}

var sendKeywords = []string{"names", "subscribe", "unsubscribe", "initial", "version", "nonce", "error", "locators", "without", "node", "typed"}

// parseSends reads "TYPE CLAUSE…".
func parseSends(_ *parser, a *args) (clientAct, error) {
	u, err := a.typeURL()
	if err != nil {
		return nil, err
	}
	m := &sent{message: message{typeURL: u, typed: u}}
	only := "" // the only variant that has the fields
	for !a.empty() {
		for keyword, variant := range map[string]string{"names": "sotw", "version": "sotw", "subscribe": "delta", "unsubscribe": "delta", "initial": "delta"} {
			if a.at(keyword) {
				if only != "" && only != variant {
					return nil, fmt.Errorf("%s is a field of %s, others are not", keyword, variant)
				}
				only = variant
			}
		}
		if err := m.clause(a); err != nil {
			return nil, err
		}
	}
	return func(c *client) error { return c.sends(m, only) }, nil
}

func (m *sent) clause(a *args) (err error) {
	switch {
	case a.skip("names"):
		m.names, err = a.names(sendKeywords...)
	case a.skip("subscribe"):
		m.subscribe, err = a.names(sendKeywords...)
	case a.skip("unsubscribe"):
		m.unsubscribe, err = a.names(sendKeywords...)
	case a.skip("initial"):
		m.initial, err = versions(a.until(sendKeywords))
	case a.skip("version"):
		m.version, err = a.text("a version")
	case a.skip("nonce"):
		m.nonce, err = a.text("a nonce")
	case a.skip("error"):
		var reason string
		reason, err = a.text("a reason")
		m.nack = rejection(reason)
	case a.skip("locators"):
		m.locators, err = locators(a.until(sendKeywords))
	case a.skip("without"):
		m.noNode = true
		if !a.skip("node") {
			err = fmt.Errorf("without what? A message can be without node")
		}
	case a.skip("node"):
		m.node, err = parseNode(a.until(sendKeywords))
		if m.node == nil {
			m.node = nodeChange{}
		}
	case a.skip("typed"):
		m.typed, err = a.text("a type URL")
		if u, ok := shortTypes[m.typed]; ok {
			m.typed = u
		}
	default:
		err = a.done()
	}
	return err
}

// locators reads NAME{PARAMETER=VALUE…} words.
func locators(words []word) ([]*discoveryv3.ResourceLocator, error) {
	var out []*discoveryv3.ResourceLocator
	for _, w := range words {
		params, err := versions(w.attrs)
		if err != nil {
			return nil, err
		}
		out = append(out, &discoveryv3.ResourceLocator{Name: w.text, DynamicParameters: params})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("which locators?")
	}
	return out, nil
}

func (c *client) sends(m *sent, only string) error {
	s, err := c.streamFor(m.typeURL)
	if err != nil {
		return err
	}
	if only == "sotw" && s.delta || only == "delta" && !s.delta {
		return fmt.Errorf("%s speaks %s, which does not have these fields; put [%s] before the line", c.name, c.down, only)
	}
	msg := m.message
	if msg.version, err = c.r.value(m.version); err != nil {
		return err
	}
	if msg.nonce, err = c.r.value(m.nonce); err != nil {
		return err
	}
	msg.initial = make(map[string]string)
	for n, v := range m.initial {
		if msg.initial[n], err = c.r.value(v); err != nil {
			return err
		}
	}
	if m.node != nil {
		msg.node = m.node.applied(c.node)
		if len(m.node) == 0 {
			msg.node = &corev3.Node{}
		}
	}
	if t := s.topic(m.typeURL); t.waiting != nil && t.waiting.Nonce == msg.nonce { // an answer, written out
		t.settle(msg.nack == nil)
	}
	c.send(s, msg)
	return nil
}
