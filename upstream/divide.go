package upstream

import (
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
)

// A gRPC server accepts messages up to a size, 4 MiB by default, and ends the stream
// with RESOURCE_EXHAUSTED for a larger one. The names that all clients of a key ask for
// go into one request, and with delta also the versions that are held. So delta
// requests are divided: servers apply each to what was subscribed before. Servers heed
// initial_resource_versions in the first request of a type only (B37). So the first
// one holds names with their versions, as many as fit, and the names of later requests
// have none: the server sends their resources again.

const (
	// leastSend is the least bound on a request, and framing what is left of a bound
	// for all but names and versions: the node, above all.
	leastSend = 64 << 10
	framing   = 16 << 10
	// perName and perVersion are what a name and an entry of
	// initial_resource_versions take besides their texts, at most.
	perName, perVersion = 5, 16
)

// NamesThatFit is how many bytes of names fit in a SotW request of a size, each with 5
// bytes besides its own.
func NamesThatFit(size int) int { return size - framing }

// divide makes messages of m that are no larger than most. rest are the names whose
// versions did not fit in the first one.
func (m message) divide(most int) (parts []message, rest []string) {
	room := most - framing
	part := m
	part.subscribe, part.unsubscribe, part.held = nil, nil, nil
	used := 0
	next := func(size int) {
		if used > 0 && used+size > room {
			parts = append(parts, part)
			part, used = message{}, 0
		}
		used += size
	}
	first := func() bool { return len(parts) == 0 }
	left := make(map[string]string, len(m.held))
	maps.Copy(left, m.held)
	hold := func(n, v string) {
		if part.held == nil {
			part.held = make(map[string]string)
		}
		part.held[n] = v
		delete(left, n)
	}
	for _, n := range m.subscribe {
		size := len(n) + perName
		version, held := m.held[n]
		if held && first() {
			size += len(n) + len(version) + perVersion
		}
		next(size)
		part.subscribe = append(part.subscribe, n)
		if held && first() {
			hold(n, version)
		}
	}
	// What is held by a wildcard or another name goes into the first request, too.
	if first() {
		for _, n := range sortedKeys(left) {
			size := len(n) + len(left[n]) + perVersion
			if used+size > room {
				break
			}
			used += size
			hold(n, left[n])
		}
	}
	for _, n := range m.unsubscribe {
		next(len(n) + perName)
		part.unsubscribe = append(part.unsubscribe, n)
	}
	return append(parts, part), sortedKeys(left)
}

// sizeOf is what names take in a request, at most.
func sizeOf(names []string) (bytes int) {
	for _, n := range names {
		bytes += len(n) + perName
	}
	return bytes
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for n := range m {
		keys = append(keys, n)
	}
	slices.Sort(keys)
	return keys
}

// sendLimit is what a server is known to accept. It is safe for concurrent use.
type sendLimit struct{ bytes atomic.Int64 }

func (l *sendLimit) most() int { return int(l.bytes.Load()) }

// halve lowers the limit below a size that was not accepted, and reports whether it
// could.
func (l *sendLimit) halve(size int) bool {
	for {
		now := l.bytes.Load()
		lower := max(min(now, int64(size))/2, leastSend)
		if lower >= now {
			return false
		}
		if l.bytes.CompareAndSwap(now, lower) {
			return true
		}
	}
}

// tooLarge is the error of names that the relay stops asking for.
const tooLarge = "the control plane accepts no request with all names that clients of this key ask for"

// exhausted learns from the end of a stream of which a server may have said that a
// request was too large for it. Delta requests become smaller. What SotW requests, and
// those to another node, would need to leave out is names: of those of which nothing
// was ever heard the newest, since what was answered has been asked for before.
func (r *runner) exhausted(s *session, end ending) {
	if end.ours || status.Code(end.err) != codes.ResourceExhausted || s.largest < leastSend {
		return
	}
	limit := &s.link.server.limit
	if r.cp.cfg.Delta && r.following == nil && limit.halve(s.largest) {
		s.link.server.journal.smaller(s.largest, limit.most())
		return
	}
	r.shed(s.largestType)
}

// shed stops asking for the newest names of a type that were never answered, and
// reports whether there were any.
func (r *runner) shed(t *resource.Type) bool {
	n := r.feed.Shed(t, tooLarge)
	if n == 0 {
		return false
	}
	r.cp.metrics.shedNames(n)
	r.links[0].server.journal.shed(string(r.feed.Key()), t.URL, n)
	return true
}
