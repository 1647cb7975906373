package cache

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/cache/absence"
	"xdsrelay/relay/cache/confidence"
	"xdsrelay/relay/cache/demand"
	"xdsrelay/relay/cache/removals"
	"xdsrelay/relay/cache/table"
	"xdsrelay/relay/resource"
)

// OriginStream is one of the upstream streams of every key. To its clients the streams of a key
// look like one control plane (G3).
type OriginStream struct {
	// Origin is the name of the control plane. Several streams may lead to the same control plane,
	// which sees them as independent (D11).
	Origin string
	// Names says, for operators, that the stream carries only what clients ask for by name.
	Names bool
	// MaxNames bounds the size of the names of a type that a key asks for on the stream, as they
	// are encoded in a request, in bytes. 0 means no bound.
	MaxNames int
}

// String identifies the stream among those of a key.
func (l OriginStream) String() string {
	if l.Names {
		return l.Origin + "/names"
	}
	return l.Origin
}

// is reports whether both are the same stream. It ignores the bounds, which may change between two
// runs of the program.
func (l OriginStream) is(other OriginStream) bool {
	return l.Origin == other.Origin && l.Names == other.Names
}

// Nobody is what [Config.Route] returns for a name that no stream serves: the name does not exist,
// and no control plane is asked.
const Nobody = demand.Nobody

// maxStreams bounds the streams of a key: sets of them are bits of a uint64.
const maxStreams = 64

func (c *Config) checkStreams() error {
	switch {
	case len(c.Streams) == 0:
		c.Streams = []OriginStream{{}}
	case len(c.Streams) > maxStreams:
		return fmt.Errorf("cache: %d legs, expected at most %d", len(c.Streams), maxStreams)
	}
	if c.Route == nil {
		c.Route = func(*resource.Type, string) int { return 0 }
	}
	return nil
}

// streamOf returns which stream serves a name. No stream serves names that cannot be those of a
// resource of the type, whatever the routes (G2, G5).
func (t *core) streamOf(name string) int {
	if resource.Unservable(t.Type, name) != "" {
		return Nobody
	}
	return t.group.cache.cfg.Route(t.Type, name)
}

// typeStreamState is what a table knows of one upstream stream besides the demand on it, which is in
// Table.demand, and its copies, which are in Table.store. The table's mu guards it.
type typeStreamState struct {
	postponed    postponed             // until other nodes are asked; see first.go
	confidence   confidence.Confidence // whether its content may be old; see effect
	mirroredAsOf time.Time             // Mirror.AsOf of the last answer
	changed      time.Time             // when the control plane last changed content that was there
	keptByOwner  bool                  // see Mirror.Kept
	// older is when those of the restored copies were current that are older than the rest, by name,
	// until the control plane has answered; see renewStream.
	older  map[string]time.Time
	claims uint64 // see Feed.Claims
	// names is what it knows of names without a resource; see assumed.go, removed.go, overtaken.go and
	// noteAbsent.
	names absence.Names

	guard removals.Hold // removals of its copies that are held back (K16)
	// unmentioned says how old what was restored is that the first answer of a delta control plane has not
	// mentioned; nil for none. See [Unmentioned].
	unmentioned *removals.Evidence
	unjudged    time.Time      // when the first complete set arrived, if nothing could be compared with it
	source      string         // the control_plane.identifier (K7)
	speaker     speaker        // the sender of that
	versions                   // of what clients see
	gate        *streamGate    // nil: open
	order       []*table.Entry // of the last full state; see ordering
}

// speaker is the sender of answers: a server of the control plane, or a node that passes on what
// that server sends.
type speaker struct {
	server string
	mirror bool
}

// systemVersion is the control plane's version of exactly the present content; empty if that is
// unknown.
func (t *core) systemVersion(by int) resource.SystemVersion {
	if t.streams[by].system.Digest != t.store.Sum(by).Digest {
		return resource.SystemVersion{}
	}
	return t.streams[by].system
}

// heard records the sender's name for itself. If the same sender omits it, the previous name stays;
// if another one omits it, there is none.
func (l *typeStreamState) heard(u Update, server string) {
	now := speaker{server, u.Mirror != nil}
	if u.Source != "" || now != l.speaker && u.Kind == Answer {
		l.source, l.speaker = u.Source, now
	}
}

// wait says that a subscription waits until a stream has answered up to seq.
type wait struct {
	stream int
	seq    uint64
}

// depend makes s wait for an answer to w.
func (t *core) depend(s *Subscription, w *interest) {
	if t.demand.Answered(w) {
		return
	}
	t.waiting[s] = struct{}{}
	for i := range s.waits {
		if s.waits[i].stream == w.Stream() {
			s.waits[i].seq = max(s.waits[i].seq, w.Seq())
			return
		}
	}
	s.waits = append(s.waits, wait{w.Stream(), w.Seq()})
}

// countPerStream adds n to the interests that s has on the stream of w.
func (s *Subscription) countPerStream(w *interest, n int) {
	if w.Stream() == Nobody || len(s.table.core.streams) == 1 {
		return
	}
	if s.perStream == nil {
		s.perStream = make([]int, len(s.table.core.streams))
	}
	s.perStream[w.Stream()] += n
}

// oneOrigin reports whether two streams lead to the same control plane.
func (t *core) oneOrigin(a, b int) bool {
	streams := t.group.cache.cfg.Streams
	return a == b || a != Nobody && b != Nobody && streams[a].Origin == streams[b].Origin
}

// judged reports whether it is known if the wildcard set has a member of that name (K13): the
// set has been answered, its stream has sent something about the name, or another control plane
// serves it.
func (t *core) judged(name string) bool {
	if e := t.store.Get(name); e != nil && e.Wild > 0 || t.wildJudged() {
		return true
	}
	stream := t.streamOf(name)
	return stream == Nobody || !t.oneOrigin(stream, t.demand.Wildcard().Stream())
}

// wildJudged reports whether names that are missing from the wildcard set do not exist: the
// set has been answered, and its content cannot be old (K14).
func (t *core) wildJudged() bool {
	stream := t.wildStream()
	return t.demand.WildcardAnswered() && stream != nil && !stream.confidence.Unconfirmed()
}

// streamsOf iterates over the streams that s has interests on.
func (t *core) streamsOf(s *Subscription) func(yield func(int, *typeStreamState) bool) {
	return func(yield func(int, *typeStreamState) bool) {
		for i := range t.streams {
			if len(t.streams) > 1 && (len(s.perStream) == 0 || s.perStream[i] == 0) {
				continue
			}
			if !yield(i, &t.streams[i]) {
				return
			}
		}
	}
}

// heldLocked reports whether a stream of s withholds content that may be old.
func (t *core) held(s *Subscription) bool {
	for _, stream := range t.streamsOf(s) {
		if stream.confidence.Withheld() {
			return true
		}
	}
	return false
}

// onlyStream returns the stream that serves all interests of s, [Nobody] if there are several.
func (t *core) onlyStream(s *Subscription) int {
	only := Nobody
	for i := range t.streamsOf(s) {
		if only != Nobody {
			return Nobody
		}
		only = i
	}
	return only
}

// source returns the identifiers of the control planes of what s sees (K7).
func (t *core) source(s *Subscription) (source string) {
	for _, stream := range t.streamsOf(s) {
		switch {
		case source == "":
			source = stream.source
		case stream.source != "" && !slices.Contains(strings.Split(source, ", "), stream.source):
			source += ", " + stream.source
		}
	}
	return source
}

// waitsFor returns the set of streams that s waits for.
func (t *core) waitsFor(s *Subscription) (streams uint64) {
	for _, w := range s.waits {
		streams |= 1 << w.stream
	}
	t.eachGlob(s, func(g *table.Glob) {
		if w := t.demand.Get(g.Name); t.demand.Open(w, g.Name) {
			streams |= 1 << w.Stream()
		}
	})
	return streams
}
