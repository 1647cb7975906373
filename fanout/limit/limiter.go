package limit

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"xdsrelay/fanout/rejection"
	"xdsrelay/relay/lockorder"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Limiter enforces the limits of a node and counts what they bound. All methods are safe for
// concurrent use.
type Limiter struct {
	// Fixed after construction.
	refusals    *refusals
	burstSignal chan struct{} // capacity 1: asks Run to measure now

	values      atomic.Pointer[Values]
	arrivals    arrivals                    // has its own lock
	measurement atomic.Pointer[measurement] // nil until the first measurement
	full        atomic.Bool                 // a connection was refused because of memory; see Run

	mu lockorder.Mutex[lockorder.Leaf]
	// Guarded by mu.
	connections, streams   int
	peerConnections, peers int
	peerSources            map[Source]int // of peerConnections
	accounts               map[owner]*account
	lingering              []lingeringKey // in the order in which they expire
}

// New makes a Limiter. meter and log may be nil.
func New(v Values, meter metric.Meter, log *slog.Logger) (*Limiter, error) {
	if meter == nil {
		meter = noop.Meter{}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &Limiter{burstSignal: make(chan struct{}, 1), accounts: make(map[owner]*account), peerSources: make(map[Source]int)}
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

// Set replaces the limits. It does not end what exceeds the new ones.
func (l *Limiter) Set(v Values) { l.values.Store(&v) }

// Values returns the limits in force. They must not be changed.
func (l *Limiter) Values() *Values { return l.values.Load() }

// Refuse counts and returns the refusal of a client over a limit of what one stream may ask for.
// have and most are the value and the limit, what is the noun that follows them in the text, and
// who identifies the client in the log.
func (l *Limiter) Refuse(n Name, who string, have, most int, what string) error {
	return l.refusals.refuse(n, who, have, most, what)
}

// RefuseLocked is Refuse for callers that hold a lock: the log line is left to [Refusal.Log].
func (l *Limiter) RefuseLocked(n Name, who string, have, most int, what string) *Refusal {
	return l.refusals.refuseLocked(n, who, have, most, what)
}

// Count counts a refusal that another package made; see [Limiter.Refuse].
func (l *Limiter) Count(n Name, who, reason string) {
	l.countAt(n.where(), n, who, reason)
}

// CountShed counts a client that was shed because of a limit.
func (l *Limiter) CountShed(n Name, who, reason string) {
	l.countAt(rejection.Client, n, who, reason)
}

// CountClosed counts a connection without streams that was closed because of a limit.
func (l *Limiter) CountClosed(n Name, who, reason string) {
	l.countAt(rejection.Connection, n, who, reason)
}

func (l *Limiter) countAt(w rejection.Where, n Name, who, reason string) {
	if log := l.refusals.count(w, n, who, reason); log != nil {
		log()
	}
}

// over reports whether one more would exceed the limit.
func over(have, most int) bool { return most > 0 && have >= most }

// ConnectionMemory is the memory that the limit must have for each connection, in bytes: twice what
// a connection without streams takes. More connections can arrive between two measurements of the
// memory than a small container has room for.
const ConnectionMemory = 48 << 10

// peerPart: at most one in peerPart of the connections that the memory limit has room for may be of
// other nodes.
const peerPart = 4

// connectionsInMemory returns how many connections the memory limit allows; 0 means unlimited.
func (l *Limiter) connectionsInMemory(v *Values) int {
	g := l.measurement.Load()
	if g == nil || g.usage.limit == 0 || v.MemoryPercent == 0 {
		return 0
	}
	return max(int(g.usage.limit/ConnectionMemory), 1)
}

// connect books a connection or refuses it. It returns the account of its source; nil for a source
// without limits.
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
		return nil, l.refusals.refuseAtLocked(rejection.Connection, Memory, s.String(), l.connections+1, most, fmt.Sprintf("connections to this node, each of which needs %d KiB of its memory limit", ConnectionMemory>>10))
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

// connectPeer books a connection of another node or refuses it.
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

// peerShare returns how many of the peer connections may be from one source. They are not
// authenticated yet, so one source must not use up the limit of all others. 0 means unlimited.
func peerShare(most int) int {
	const least = 100 // nodes behind one address, such as in a test setup
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
		l.dropEmptyLocked(a)
	}
}

// Identify books a connection for an identity or refuses it. The caller calls release once.
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
		l.dropEmptyLocked(a)
	}, nil
}

// Reservation is the booking of a stream. The zero Reservation is of a stream without a source and
// an identity.
type Reservation struct{ source, identity *account }

// keys returns the account that counts the stream's key: that of the identity if there is one.
func (s Reservation) keys() *account {
	if s.identity != nil {
		return s.identity
	}
	return s.source
}

// Owner names the account that counts the stream: the identity, or else the source. It is empty for
// a stream without either.
func (s Reservation) Owner() string {
	if a := s.keys(); a != nil {
		return a.of.String()
	}
	return ""
}

// Enter books a stream of a client or refuses it: because of a limit, or because the node is
// overloaded. identity is empty for a client without one. The caller ends the reservation with
// [Limiter.Leave].
func (l *Limiter) Enter(s Source, identity string) (reservation Reservation, err error) {
	if err := l.admit(l.Values(), s); err != nil {
		return reservation, err
	}
	return l.Book(s, identity)
}

// Book is Enter without the check for overload.
func (l *Limiter) Book(s Source, identity string) (reservation Reservation, err error) {
	v := l.Values()
	defer logged(&err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if over(l.streams, v.Streams) {
		return reservation, l.refusals.refuseLocked(Streams, s.String(), l.streams+1, v.Streams, "streams on this node")
	}
	if s != (Source{}) {
		reservation.source = l.accountLocked(owner{source: s})
		if have := reservation.source.streams; over(have, v.StreamsPerSource) {
			return Reservation{}, l.refusals.refuseLocked(StreamsPerSource, s.String(), have+1, v.StreamsPerSource, "streams from "+s.String())
		}
	}
	if identity != "" {
		reservation.identity = l.accountLocked(owner{identity: identity})
		if have := reservation.identity.streams; over(have, v.StreamsPerIdentity) {
			if reservation.source != nil {
				l.dropEmptyLocked(reservation.source)
			}
			return Reservation{}, l.refusals.refuseLocked(StreamsPerIdentity, s.String(), have+1, v.StreamsPerIdentity, "streams of "+identity)
		}
	}
	l.streams++
	for _, a := range reservation.accounts() {
		a.streams++
	}
	return reservation, nil
}

func (s Reservation) accounts() []*account {
	all := make([]*account, 0, 2)
	for _, a := range [2]*account{s.source, s.identity} {
		if a != nil {
			all = append(all, a)
		}
	}
	return all
}

// Use books the key of a reserved stream or refuses it. It is called at most once per stream.
// hasRoom reports whether this key fits in a node that may have the given number of keys. who
// identifies the client in the log.
func (l *Limiter) Use(s Reservation, who, key string, hasRoom func(most int) bool) (err error) {
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
	l.expireKeysLocked(time.Now())
	u, ok := a.uses(key)
	if have := a.keys(); !ok && over(have, most) {
		return l.refusals.refuseLocked(KeysPerIdentity, a.of.source.String(), have+1, most, "aggregation keys of "+a.of.String())
	}
	u.streams++
	a.set(key, u)
	return nil
}

// Leave ends a reservation. key is the key that Use booked, or empty.
func (l *Limiter) Leave(s Reservation, key string) {
	linger := l.Values().Linger
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams--
	now := time.Now()
	if a := s.keys(); key != "" && a != nil {
		u, _ := a.uses(key)
		if u.streams--; u.streams == 0 {
			u.until = now.Add(linger).UnixNano()
			l.lingering = append(l.lingering, lingeringKey{a, key, u.until})
		}
		a.set(key, u)
	}
	for _, a := range s.accounts() {
		a.streams--
		l.dropEmptyLocked(a)
	}
	l.expireKeysLocked(now)
}

// EnterPeer books a stream of another node or refuses it.
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

// LeavePeer releases a stream that EnterPeer booked.
func (l *Limiter) LeavePeer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers--
}
