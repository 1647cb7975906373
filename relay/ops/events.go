package ops

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/events"
)

// askEvents is the question of nodes for events.
const askEvents = "fleet/events"

// Event is something that happened, with the nodes that recorded it.
type Event = events.Seen

// EventKinds returns all kinds of events.
func EventKinds() (all []string) {
	for _, s := range events.Kinds() {
		all = append(all, string(s.Kind))
	}
	return all
}

// Events are what happened in a tier, as all nodes recorded it.
type Events struct {
	// Events are the newest that match, oldest first.
	Events []events.Seen `json:"events"`
	// After asks for later events. It works on every node of the tier.
	After string `json:"after"`
	// Lost are nodes that no longer keep events behind the previous After, and how many.
	Lost []LostEvents `json:"lost,omitempty"`
	// Omitted are events that a node did not record because there were too many of the kind in
	// a minute.
	Omitted []OmittedEvents `json:"omitted,omitempty"`
	// Silent are the nodes that did not answer: their events are not here, except for those that
	// other nodes recorded, too.
	Silent []Silent `json:"silent"`
}

// LostEvents are events that a reader missed.
type LostEvents struct {
	Node  string `json:"node"`
	Count uint64 `json:"count"`
}

// OmittedEvents are events of a kind that a node did not record.
type OmittedEvents struct {
	Node  string      `json:"node"`
	Kind  events.Kind `json:"kind"`
	Count int         `json:"count"`
}

// EventQuery says which events are asked for. The zero value is the newest of all kinds.
type EventQuery struct {
	// Kinds are kinds, or their beginnings up to a dot; empty for all. Key is an aggregation key.
	Kinds []string
	Key   string
	// Since is the time of the first event; zero for no such bound.
	Since time.Time
	// Limit is how many events are returned at most, the newest; 0 for the usual number.
	Limit int

	after string
	read  reading // what After of the previous answer says
}

// reading is how far a reader is.
type reading struct {
	// Began is when it began: of a node that was not known then, it gets what happened later.
	Began time.Time        `json:"b"`
	Nodes events.Positions `json:"n"`
}

// Bounds of an answer, and of the nodes that a reader has positions of.
const (
	usualEvents   = 100
	largestEvents = 1000
	mostReading   = 1000
)

// The parameters of a question for events.
const (
	paramSince = "since"
)

// EventParams are the parameters that [ParseEventQuery] reads.
func EventParams() []string { return []string{paramAfter, paramSince, paramKind, ParamKey, paramLimit} }

// ParseEventQuery reads a query from the parameters of a URL. The error is the asker's.
func ParseEventQuery(v url.Values) (q EventQuery, err error) {
	q = EventQuery{Key: v.Get(ParamKey), Limit: usualEvents, after: v.Get(paramAfter)}
	if text := v.Get(paramKind); text != "" {
		q.Kinds = strings.Split(text, ",")
	}
	if err := CheckEventKinds(q.Kinds); err != nil {
		return q, err
	}
	if text := v.Get(paramLimit); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > largestEvents {
			return q, fmt.Errorf("limit: got %q, expected a number from 1 to %d", text, largestEvents)
		}
	}
	if text := v.Get(paramSince); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 {
			return q, fmt.Errorf("since: got %q, expected seconds of Unix time", text)
		}
		q.Since = time.Unix(seconds, 0)
	}
	if q.after != "" {
		if err := readToken(q.after, &q.read); err != nil || len(q.read.Nodes) > mostReading {
			return q, fmt.Errorf("after: got %q, expected the after of an answer", q.after)
		}
	}
	return q, nil
}

// Values is q as the parameters of a URL.
func (q EventQuery) Values() url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set(paramAfter, q.after)
	set(paramKind, strings.Join(q.Kinds, ","))
	set(ParamKey, q.Key)
	if !q.Since.IsZero() {
		set(paramSince, strconv.FormatInt(q.Since.Unix(), 10))
	}
	if q.Limit > 0 {
		set(paramLimit, strconv.Itoa(q.Limit))
	}
	return v
}

// Behind is q for the events behind an answer.
func (q EventQuery) Behind(after string) EventQuery {
	q.after, q.Since = after, time.Time{}
	return q
}

// CheckEventKinds returns an error about the first kind that no event has.
func CheckEventKinds(kinds []string) error {
	for _, kind := range kinds {
		if !slices.ContainsFunc(events.Kinds(), func(s events.Spec) bool { return isKind(s.Kind, kind) }) {
			return fmt.Errorf("kind: got %q, expected a kind such as %s, or its beginning such as node; see docs/reference/events.md", kind, events.NodeJoined)
		}
	}
	return nil
}

// isKind reports whether a kind is the wanted one or begins with it.
func isKind(kind events.Kind, wanted string) bool {
	rest, begins := strings.CutPrefix(string(kind), wanted)
	return begins && wanted != "" && (rest == "" || rest[0] == '.')
}

// wants reports whether an event is asked for.
func (q *EventQuery) wants(e *events.Event) bool {
	return (len(q.Kinds) == 0 || slices.ContainsFunc(q.Kinds, func(kind string) bool { return isKind(e.Kind, kind) })) &&
		(q.Key == "" || e.IsAbout(q.Key)) && !e.Time.Before(q.Since)
}

// overlap is for how long a node returns events again that the reader has: by them it is seen that
// another node's later record is about a fact that the reader knows.
const overlap = 2 * events.SameWindow

// events answers a query on this node, with the copies that it keeps of others.
func (l Local) events(q EventQuery, now time.Time) []events.Part {
	if l.Events == nil {
		return []events.Part{}
	}
	var again time.Time
	if q.after != "" {
		again = now.Add(-overlap)
	}
	parts := l.Events(q.read.Nodes, again)
	for i := range parts {
		p := &parts[i]
		from := q.Since
		if _, known := q.read.Nodes[p.Run]; !known && from.Before(q.read.Began) {
			from = q.read.Began // what happened before belongs to answers that the reader has
		}
		p.Events = slices.DeleteFunc(p.Events, func(e events.Event) bool { return e.Time.Before(from) || !q.wants(&e) })
		// Twice as many as wanted: several nodes record the same facts.
		if most := 2 * q.Limit; q.after == "" && len(p.Events) > most {
			p.Events = p.Events[len(p.Events)-most:]
		}
	}
	return parts
}

// answerEvents registers what this node answers others.
func (l Local) answerEvents(handle func(path string, h func(context.Context, url.Values) (any, error), params ...string)) {
	handle(askEvents, func(_ context.Context, v url.Values) (any, error) {
		q, err := ParseEventQuery(v)
		if err != nil {
			return nil, err
		}
		return l.events(q, time.Now()), nil
	}, EventParams()...)
}

// Events returns what happened in the tier.
func (f *Model) Events(ctx context.Context, q EventQuery) Events {
	if q.Limit == 0 {
		q.Limit = usualEvents
	}
	answers, silent := AskAll[[]events.Part](ctx, f.nodes, askEvents, q.Values(), nil)
	return q.join(events.Distinct(slices.Concat(answers...)), silent, time.Now())
}

// EventsToCopy returns what nodes recorded behind the copies that a reader has.
func (f *Model) EventsToCopy(ctx context.Context, read events.Positions, wanted func(node string) bool) []events.Part {
	q := EventQuery{Limit: largestEvents, after: token(reading{Nodes: read})}
	answers, _ := AskAll[[]events.Part](ctx, f.nodes, askEvents, q.Values(), wanted)
	return slices.Concat(answers...)
}

// join puts the answers of all nodes together.
func (q *EventQuery) join(parts []events.Part, silent []Silent, now time.Time) Events {
	out := Events{Events: events.Merge(parts, q.read.Nodes), Silent: silent}
	next := reading{Began: q.read.Began, Nodes: make(events.Positions, len(parts))}
	if next.Began.IsZero() {
		next.Began = now
	}
	if len(q.read.Nodes) < mostReading-len(parts) {
		maps.Copy(next.Nodes, q.read.Nodes)
	}
	for _, p := range parts {
		next.Nodes[p.Run] = max(p.Last, q.read.Nodes[p.Run])
		if p.Lost > 0 {
			out.Lost = append(out.Lost, LostEvents{p.Node, p.Lost})
		}
		for _, kind := range slices.Sorted(maps.Keys(p.Omitted)) {
			out.Omitted = append(out.Omitted, OmittedEvents{p.Node, kind, p.Omitted[kind]})
		}
	}
	out.After = token(next)
	if n := len(out.Events); n > q.Limit && q.after == "" {
		out.Events = out.Events[n-q.Limit:]
	}
	return out
}
