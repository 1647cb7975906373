package limit

import (
	"fmt"
	"net"

	"xdsrelay/relay/lockorder"
)

// Maximum open connections of one port for operators or monitoring: in total and per source.
const (
	operatorConnections          = 256
	operatorConnectionsPerSource = 64
)

// ListenOperators bounds the connections of a port for operators or monitoring, which no other
// limit counts. Each port has its own bound, so that a port that anybody may reach cannot use up
// the connections of the other. Connections over the bound are closed.
func (l *Limiter) ListenOperators(inner net.Listener) *Listener {
	p := &port{limiter: l, sources: make(map[Source]int)}
	return newListener(inner, false, p.connect)
}

// port counts the connections of one port.
type port struct {
	limiter *Limiter // fixed

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	open    int
	sources map[Source]int
}

func (p *port) connect(s Source) (release func(), err error) {
	defer logged(&err)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.open >= operatorConnections:
		return nil, p.limiter.refusals.refuseLocked(OperatorConnections, s.String(), p.open+1, operatorConnections, "connections to one port for operators")
	case p.sources[s] >= operatorConnectionsPerSource && s != (Source{}):
		return nil, p.limiter.refusals.refuseLocked(OperatorConnections, s.String(), p.sources[s]+1, operatorConnectionsPerSource, fmt.Sprintf("connections from %s to one port for operators", s))
	}
	p.open++
	p.sources[s]++
	return func() { p.disconnect(s) }, nil
}

func (p *port) disconnect(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if p.sources[s]--; p.sources[s] <= 0 {
		delete(p.sources, s)
	}
}
