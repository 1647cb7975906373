package upstream

import (
	"maps"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
)

// A gRPC server accepts messages up to a size, 4 MiB by default, and ends the stream with
// RESOURCE_EXHAUSTED for a larger one. One request has the names that all clients of a key want,
// and on delta also the versions of cached resources. So delta requests are divided: servers apply
// each to the subscription from the earlier ones. Servers use initial_resource_versions in the
// first request of a type only (B37). So the first request has names with their versions, as many
// as fit, and the names of later requests have no versions: the server resends their resources.

const (
	// leastSend is the smallest bound on a request. framing is the part of a bound that is reserved
	// for everything except names and versions, mainly the node.
	leastSend = 64 << 10
	framing   = 16 << 10
	// perName and perVersion are the most bytes that a name and an entry of
	// initial_resource_versions need besides their texts.
	perName, perVersion = 5, 16
)

// NamesThatFit is how many bytes of names fit in a SotW request of a size in bytes; each name
// counts 5 bytes more than its length.
func NamesThatFit(size int) int { return size - framing }

// divide splits m into messages of at most most bytes each. rest are the names whose versions did
// not fit in the first one.
func (m message) divide(most int) (parts []message, rest []string) {
	room := most - framing
	part := m
	part.subscribe, part.unsubscribe, part.initialVersions = nil, nil, nil
	used := 0
	next := func(size int) {
		if used > 0 && used+size > room {
			parts = append(parts, part)
			part, used = message{}, 0
		}
		used += size
	}
	first := func() bool { return len(parts) == 0 }
	left := make(map[string]string, len(m.initialVersions))
	maps.Copy(left, m.initialVersions)
	claim := func(n, v string) {
		if part.initialVersions == nil {
			part.initialVersions = make(map[string]string)
		}
		part.initialVersions[n] = v
		delete(left, n)
	}
	for _, n := range m.subscribe {
		size := len(n) + perName
		version, has := m.initialVersions[n]
		if has && first() {
			size += len(n) + len(version) + perVersion
		}
		next(size)
		part.subscribe = append(part.subscribe, n)
		if has && first() {
			claim(n, version)
		}
	}
	// The versions of resources that are subscribed by a wildcard or another name belong in the
	// first request as well.
	if first() {
		for _, n := range sortedKeys(left) {
			size := len(n) + len(left[n]) + perVersion
			if used+size > room {
				break
			}
			used += size
			claim(n, left[n])
		}
	}
	for _, n := range m.unsubscribe {
		next(len(n) + perName)
		part.unsubscribe = append(part.unsubscribe, n)
	}
	return append(parts, part), sortedKeys(left)
}

// sizeOf returns the most bytes that names need in a request.
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

// sendLimit is the request size that a server is known to accept, in bytes. It is safe for
// concurrent use.
type sendLimit struct{ bytes atomic.Int64 }

func (l *sendLimit) most() int { return int(l.bytes.Load()) }

// halve lowers the limit below a size that the server rejected, and reports whether it could.
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

// tooLarge is the error of names that the relay stops requesting.
const tooLarge = "the control plane rejects a request with all subscribed names of this key"

// exhausted handles the end of a stream whose server may have rejected a request as too large.
// Delta requests become smaller. SotW requests, and requests to another node, can only become
// smaller by leaving out names: the newest of those that were never answered, since a request with
// the answered ones was accepted before.
func (r *runner) exhausted(s *session, end ending) {
	if end.ours || status.Code(end.err) != codes.ResourceExhausted || s.largest < leastSend {
		return
	}
	limit := &s.serverStream.server.limit
	if r.cp.cfg.Delta && r.following == nil && limit.halve(s.largest) {
		s.serverStream.server.journal.requestsReduced(s.largest, limit.most())
		return
	}
	r.shed(s.largestType)
}

// shed stops requesting the newest names of a type that were never answered, and reports whether
// there were any.
func (r *runner) shed(t *resource.Type) bool {
	n := r.feed.Shed(t, tooLarge)
	if n == 0 {
		return false
	}
	r.cp.metrics.shedNames(n)
	r.serverStreams[0].server.journal.shed(string(r.feed.Key()), t.URL, n)
	return true
}
