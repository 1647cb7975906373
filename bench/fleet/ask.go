package fleet

import (
	"sync"

	"xdsrelay/bench/content"
)

// scratches are buffers for what is short.
var scratches sync.Pool

func takeScratch() *[256]byte {
	if b, ok := scratches.Get().(*[256]byte); ok {
		return b
	}
	return new([256]byte)
}

// ask subscribes to names and drops others; for a SotW client what counts is all
// that it wants. The first request for a type also says what the client holds.
func (c *client) ask(k kind, add, drop *set) {
	s := &c.subs[k]
	if s.names == nil && !s.said {
		return // an empty list would ask for something else (C7)
	}
	scratch := takeScratch()
	defer scratches.Put(scratch)
	head := scratch[:0]
	if c.link.fleet.cfg.Delta {
		head = c.appendNode(head, k, reqNode)
		head = appendString(head, reqType, k.info().url)
		var initial []byte
		if !s.said {
			initial = c.view.initialVersions(k, s.state.Load())
		}
		c.send(k, head, c.names(k, add, reqSubscribe), c.names(k, drop, reqUnsubscribe), initial)
		return
	}
	head = appendString(head, sotwVersion, s.state.Load().version)
	head = c.appendNode(head, k, sotwNode)
	head = appendString(head, sotwType, k.info().url)
	head = appendBytes(head, sotwNonce, s.nonce)
	c.send(k, head, c.names(k, s.names, sotwNames))
}

// answer acknowledges a response, or rejects it with a text.
func (c *client) answer(k kind, nonce []byte, refusal string) {
	s := &c.subs[k]
	scratch := takeScratch()
	defer scratches.Put(scratch)
	head := scratch[:0]
	if c.link.fleet.cfg.Delta {
		head = appendString(head, reqType, k.info().url)
		head = appendBytes(head, reqNonce, nonce)
		if refusal != "" {
			head = appendError(head, reqError, refusal)
		}
		c.send(k, head)
		return
	}
	head = appendString(head, sotwVersion, s.state.Load().version)
	head = appendString(head, sotwType, k.info().url)
	head = appendBytes(head, sotwNonce, nonce)
	if refusal != "" {
		head = appendError(head, sotwErrorDetails, refusal)
	}
	c.send(k, head, c.names(k, s.names, sotwNames))
}

// names is a set of names as a field; nothing for a wildcard, which goes without
// names.
func (c *client) names(k kind, s *set, num int) []byte {
	if s == nil || s.all {
		return nil
	}
	return c.view.namesField(k, s, num)
}

func (c *client) send(k kind, parts ...[]byte) {
	s := &c.subs[k]
	s.said = true
	s.stream.Send(parts...)
}

// appendNode appends the node if this is the stream's first request.
func (c *client) appendNode(b []byte, k kind, num int) []byte {
	if c.link.fleet.cfg.PerType && c.subs[k].said || c.named {
		return b
	}
	c.named = !c.link.fleet.cfg.PerType
	return appendNode(b, num, content.NodeID(c.number), content.KeyName(c.view.key))
}

// want makes the names that a client asks for of a type these, and reports
// whether it had to say so.
func (c *client) want(k kind, names *set) bool {
	s := &c.subs[k]
	if s.names.same(names) {
		return false
	}
	add, drop := names.minus(s.names), s.names.minus(names)
	c.view.mu.Lock()
	// A name that was dropped comes again (B18, B35), and a response that was
	// on its way may have come before that.
	s.again = c.view.share(s.again.union(add.minus(add.minus(s.asked))))
	s.names, s.asked = c.view.share(names), c.view.share(s.asked.union(names))
	c.view.mu.Unlock()
	if drop != nil {
		s.state.Store(s.state.Load().without(drop))
	}
	c.ask(k, add, drop)
	return true
}
