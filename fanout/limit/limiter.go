package limit

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"xdsrelay/relay/lockorder"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Limiter holds the limits of a node and what there is. All methods are safe for
// concurrent use.
type Limiter struct {
	// Fixed after construction.
	refusals *refusals
	crowd    chan struct{} // has one place: Run is to measure now

	values   atomic.Pointer[Values]
	arrivals arrivals             // has a lock of its own
	gate     atomic.Pointer[gate] // nil until something was measured
	full     atomic.Bool          // a connection was refused for memory; see Run

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	connections, streams   int
	peerConnections, peers int
	peerSources            map[Source]int // of peerConnections
	accounts               map[owner]*account
	left                   []lingering // in the order of their ends
}

// New makes a limiter. meter and log may be nil.
func New(v Values, meter metric.Meter, log *slog.Logger) (*Limiter, error) {
	if meter == nil {
		meter = noop.Meter{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{crowd: make(chan struct{}, 1), accounts: make(map[owner]*account), peerSources: make(map[Source]int)}
	l.values.Store(&v)
	var err error
	if l.refusals, err = newRefusals(meter, log); err != nil {
		return nil, err
	}
	if err := l.observe(meter); err != nil {
		return nil, err
	}
	return l, nil
}

// Set puts other limits into force. What is there already stays.
func (l *Limiter) Set(v Values) { l.values.Store(&v) }

// Values are the limits in force, not to be changed.
func (l *Limiter) Values() *Values { return l.values.Load() }

// Refuse makes the refusal of a client that is over a limit on what one stream may
// ask for, and counts it: it has so many of what, and most is the limit. who is for
// the log.
func (l *Limiter) Refuse(n Name, who string, have, most int, what string) error {
	return l.refusals.refuse(n, who, have, most, what)
}

// RefuseLocked is Refuse under a lock: it leaves the line of the log to [Refusal.Log].
func (l *Limiter) RefuseLocked(n Name, who string, have, most int, what string) *Refusal {
	return l.refusals.refuseLocked(n, who, have, most, what)
}

// Count counts what a client was refused by other means; see [Limiter.Refuse].
func (l *Limiter) Count(n Name, who, reason string) {
	if log := l.refusals.count(n, who, reason); log != nil {
		log()
	}
}

// over tells whether there is no room for one more.
func over(have, most int) bool { return most > 0 && have >= most }

// ConnectionMemory is how many bytes of the memory limit there have to be for each
// connection: twice what one takes that has no stream. More of them can come within the time
// between two looks at the memory than a small container has room for.
const ConnectionMemory = 48 << 10

// peerPart of the connections that the memory limit has room for may be of other nodes.
const peerPart = 4

// connectionsInMemory returns how many connections there may be with the memory limit; 0 for
// any number.
func (l *Limiter) connectionsInMemory(v *Values) int {
	g := l.gate.Load()
	if g == nil || g.usage.limit == 0 || v.MemoryPercent == 0 {
		return 0
	}
	return max(int(g.usage.limit/ConnectionMemory), 1)
}

// connect books a connection, or refuses it. It returns the account of its source, nil
// for a source without limits.
func (l *Limiter) connect(s Source) (a *account, err error) {
	v := l.Values()
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if over(l.connections, v.Connections) {
		return nil, l.refusals.refuseLocked(Connections, s.String(), l.connections+1, v.Connections, "connections to this node")
	}
	if most := l.connectionsInMemory(v); over(l.connections, most) {
		l.full.Store(true)
		return nil, l.refusals.refuseLocked(Memory, s.String(), l.connections+1, most, fmt.Sprintf("connections to this node, each of which needs %d KiB of its memory limit", ConnectionMemory>>10))
	}
	if s != (Source{}) {
		a = l.accountLocked(owner{source: s})
		if over(a.connections, v.ConnectionsPerSource) {
			return nil, l.refusals.refuseLocked(ConnectionsPerSource, s.String(), a.connections+1, v.ConnectionsPerSource, "connections from "+s.String())
		}
		a.connections++
	}
	l.connections++
	return a, nil
}

// connectPeer books a connection of another node, or refuses it.
func (l *Limiter) connectPeer(s Source) (err error) {
	v := l.Values()
	most := v.PeerConnections
	if room := l.connectionsInMemory(v) / peerPart; room > 0 && (most == 0 || room < most) {
		most = room
	}
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if over(l.peerConnections, most) {
		return l.refusals.refuseLocked(PeerConnections, s.String(), l.peerConnections+1, most, "connections of other nodes")
	}
	if share := peerShare(most); over(l.peerSources[s], share) {
		return l.refusals.refuseLocked(PeerConnections, s.String(), l.peerSources[s]+1, share, "connections of other nodes from "+s.String())
	}
	l.peerConnections++
	l.peerSources[s]++
	return nil
}

// peerShare is how many of the connections of other nodes may be from one source, which
// nobody has asked yet who it is: it must not take the places of all others. 0 means any.
func peerShare(most int) int {
	const least = 100 // nodes behind one address, as in a trial
	if most <= 0 {
		return 0
	}
	return max(most/10, least)
}

func (l *Limiter) disconnectPeer(s Source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peerConnections--
	if l.peerSources[s]--; l.peerSources[s] <= 0 {
		delete(l.peerSources, s)
	}
}

func (l *Limiter) disconnect(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connections--
	if a != nil {
		a.connections--
		l.tidyLocked(a)
	}
}

// Identify books a connection as one of an identity, or refuses it. It has to be
// given back by release, once.
func (l *Limiter) Identify(s Source, identity string) (release func(), err error) {
	most := l.Values().ConnectionsPerIdentity
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accountLocked(owner{identity: identity})
	if over(a.connections, most) {
		return nil, l.refusals.refuseLocked(ConnectionsPerIdentity, s.String(), a.connections+1, most, "connections of "+identity)
	}
	a.connections++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.connections--
		l.tidyLocked(a)
	}, nil
}

// Stay is a stream that was entered. The zero Stay is of a stream without a source and
// without an identity.
type Stay struct{ source, identity *account }

// keys is the account that the stream's key counts in: that of its identity, if it has
// one.
func (s Stay) keys() *account {
	if s.identity != nil {
		return s.identity
	}
	return s.source
}

// Owner names the account that the stream counts in: the identity, or else the source;
// empty for a stream without either.
func (s Stay) Owner() string {
	if a := s.keys(); a != nil {
		return a.of.String()
	}
	return ""
}

// Enter books a stream of a client, or refuses it: also where there is room, but the
// node is overloaded. identity is empty for a client without one. What was entered
// has to be left.
func (l *Limiter) Enter(s Source, identity string) (stay Stay, err error) {
	if err := l.admit(l.Values(), s); err != nil {
		return stay, err
	}
	return l.Book(s, identity)
}

// Book is Enter also while the node is overloaded.
func (l *Limiter) Book(s Source, identity string) (stay Stay, err error) {
	v := l.Values()
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if over(l.streams, v.Streams) {
		return stay, l.refusals.refuseLocked(Streams, s.String(), l.streams+1, v.Streams, "streams on this node")
	}
	if s != (Source{}) {
		stay.source = l.accountLocked(owner{source: s})
		if have := stay.source.streams; over(have, v.StreamsPerSource) {
			return Stay{}, l.refusals.refuseLocked(StreamsPerSource, s.String(), have+1, v.StreamsPerSource, "streams from "+s.String())
		}
	}
	if identity != "" {
		stay.identity = l.accountLocked(owner{identity: identity})
		if have := stay.identity.streams; over(have, v.StreamsPerIdentity) {
			if stay.source != nil {
				l.tidyLocked(stay.source)
			}
			return Stay{}, l.refusals.refuseLocked(StreamsPerIdentity, s.String(), have+1, v.StreamsPerIdentity, "streams of "+identity)
		}
	}
	l.streams++
	for _, a := range stay.accounts() {
		a.streams++
	}
	return stay, nil
}

func (s Stay) accounts() []*account {
	all := make([]*account, 0, 2)
	for _, a := range [2]*account{s.source, s.identity} {
		if a != nil {
			all = append(all, a)
		}
	}
	return all
}

// Use books the key of a stream that was entered, or refuses it. It is called once for
// each stream at most. hasRoom tells whether a node that may have so many keys has room
// for this one; who is for the log.
func (l *Limiter) Use(s Stay, who, key string, hasRoom func(most int) bool) (err error) {
	defer logged(&err)
	v := l.Values()
	if !hasRoom(v.Keys) {
		return l.refusals.refuseLocked(Keys, who, v.Keys+1, v.Keys, "aggregation keys on this node")
	}
	most := v.KeysPerIdentity
	a := s.keys()
	if a == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(time.Now())
	u, ok := a.uses(key)
	if have := a.keys(); !ok && over(have, most) {
		return l.refusals.refuseLocked(KeysPerIdentity, a.of.source.String(), have+1, most, "aggregation keys of "+a.of.String())
	}
	u.streams++
	a.set(key, u)
	return nil
}

// Leave gives back a stream that was entered, and its key if one was booked; key is
// empty if none was.
func (l *Limiter) Leave(s Stay, key string) {
	linger := l.Values().Linger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams--
	now := time.Now()
	if a := s.keys(); key != "" && a != nil {
		u, _ := a.uses(key)
		if u.streams--; u.streams == 0 {
			u.until = now.Add(linger).UnixNano()
			l.left = append(l.left, lingering{a, key, u.until})
		}
		a.set(key, u)
	}
	for _, a := range s.accounts() {
		a.streams--
		l.tidyLocked(a)
	}
	l.forgetLocked(now)
}

// EnterPeer books a stream of another node, or refuses it.
func (l *Limiter) EnterPeer(who string) (err error) {
	most := l.Values().PeerStreams
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if over(l.peers, most) {
		return l.refusals.refuseLocked(PeerStreams, who, l.peers+1, most, "streams of other nodes")
	}
	l.peers++
	return nil
}

// LeavePeer gives it back.
func (l *Limiter) LeavePeer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers--
}
