package limit

import (
	"net"
	"net/netip"
	"time"
)

// account is what a source or an identity has on this node. It is there as long as it
// has something.
type account struct {
	of                   owner // fixed
	connections, streams int
	// The keys of its streams. Nearly all have one, so that one has no map.
	key  string
	use  use
	more map[string]use
}

// use is that of a key.
type use struct {
	streams int
	until   int64 // while there are no streams: when it ends, in ns since 1970
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

// set puts in what the use of a key is.
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

// Source is where a connection comes from, as far as limits go: an address, or of
// IPv6 a network, since whoever has one address there has them all. The zero Source,
// of local sockets, has no limits of its own.
type Source struct{ addr netip.Addr }

// networkBits is how much of an IPv6 address is one source.
const networkBits = 64

// SourceOf is the source of a connection.
func SourceOf(a net.Addr) Source {
	if a == nil {
		return Source{}
	}
	return SourceAt(a.String())
}

// SourceAt is the source of a connection from an address in the form host:port.
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

// String is the address, or the network's first one.
func (s Source) String() string {
	if !s.addr.IsValid() {
		return "a local socket"
	}
	return s.addr.String()
}

// lingering is a key that was left, and may be forgotten later.
type lingering struct {
	of    *account
	key   string
	until int64
}

// owner is whose account it is: a source, or an identity if there is one.
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

// tidyLocked drops an account if it is empty.
func (l *Limiter) tidyLocked(a *account) {
	if a.empty() {
		delete(l.accounts, a.of)
	}
}

// forgetLocked ends the use of keys whose time is over. What is left stays in order,
// since all linger for the same time.
func (l *Limiter) forgetLocked(now time.Time) {
	done := 0
	for _, k := range l.left {
		if k.until > now.UnixNano() {
			break
		}
		done++
		if u, ok := k.of.uses(k.key); ok && u.streams == 0 && u.until <= k.until {
			k.of.drop(k.key)
			l.tidyLocked(k.of)
		}
	}
	if done == 0 {
		return
	}
	clear(l.left[:done])
	if l.left = l.left[done:]; len(l.left) == 0 {
		l.left = nil
	}
}
