package limit

import (
	"net"
	"net/netip"
	"time"
)

// account counts what a source or an identity uses on this node. It exists while it counts
// anything.
type account struct {
	of                   owner // fixed
	connections, streams int
	// The keys of its streams. Nearly all accounts have one key, so one key needs no map.
	key  string
	use  use
	more map[string]use
}

// use is the use of one key.
type use struct {
	streams int
	until   int64 // without streams: when the use expires, in ns since 1970
}

func (a *account) keys() int {
	n := len(a.more)
	if a.key != "" {
		n++
	}
	return n
}

func (a *account) uses(key string) (use, bool) {
	if a.key == key {
		return a.use, true
	}
	u, ok := a.more[key]
	return u, ok
}

// set sets the use of a key.
func (a *account) set(key string, u use) {
	_, other := a.more[key]
	switch {
	case a.key == key || a.key == "" && !other:
		a.key, a.use = key, u
	case a.more == nil:
		a.more = map[string]use{key: u}
	default:
		a.more[key] = u
	}
}

func (a *account) drop(key string) {
	if a.key == key {
		a.key, a.use = "", use{}
		return
	}
	if delete(a.more, key); len(a.more) == 0 {
		a.more = nil
	}
}

func (a *account) empty() bool { return a.connections == 0 && a.streams == 0 && a.keys() == 0 }

// Source identifies a client by where it connects from: an IPv4 address or an IPv6 network, since a
// host can use all addresses of its network. The zero Source, of local sockets, has no limits of
// its own.
type Source struct{ addr netip.Addr }

// networkBits is the prefix length of the IPv6 network that counts as one source.
const networkBits = 64

// SourceOf returns the source of a connection.
func SourceOf(a net.Addr) Source {
	if a == nil {
		return Source{}
	}
	return SourceAt(a.String())
}

// SourceAt returns the source of an address in the form host:port.
func SourceAt(address string) Source {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return Source{}
	}
	addr := at.Addr().Unmap().WithZone("")
	if addr.Is6() {
		if p, err := addr.Prefix(networkBits); err == nil {
			addr = p.Addr()
		}
	}
	return Source{addr}
}

// String returns the address, or the first one of the network.
func (s Source) String() string {
	if !s.addr.IsValid() {
		return "a local socket"
	}
	return s.addr.String()
}

// lingeringKey is a key whose use expires later unless it gets a stream again.
type lingeringKey struct {
	of    *account
	key   string
	until int64
}

// owner identifies an account: a source, or an identity if there is one.
type owner struct {
	source   Source
	identity string
}

func (o owner) String() string {
	if o.identity != "" {
		return o.identity
	}
	return o.source.String()
}

func (l *Limiter) accountLocked(o owner) *account {
	a := l.accounts[o]
	if a == nil {
		a = &account{of: o}
		l.accounts[o] = a
	}
	return a
}

// dropEmptyLocked drops an account that counts nothing. The caller holds mu.
func (l *Limiter) dropEmptyLocked(a *account) {
	if a.empty() {
		delete(l.accounts, a.of)
	}
}

// expireKeysLocked drops the keys whose use has expired. The others stay in order, since all linger
// for the same time. The caller holds mu.
func (l *Limiter) expireKeysLocked(now time.Time) {
	done := 0
	for _, k := range l.lingering {
		if k.until > now.UnixNano() {
			break
		}
		done++
		if u, ok := k.of.uses(k.key); ok && u.streams == 0 && u.until <= k.until {
			k.of.drop(k.key)
			l.dropEmptyLocked(k.of)
		}
	}
	if done == 0 {
		return
	}
	clear(l.lingering[:done])
	if l.lingering = l.lingering[done:]; len(l.lingering) == 0 {
		l.lingering = nil
	}
}
