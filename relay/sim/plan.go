package sim

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan is what happens in a run, as data: a run of the same plan meets the same faults at
// the same times.
type Plan struct {
	Setup
	Events []Event
}

// Setup is what a run begins with.
type Setup struct {
	Seed    uint64 // of what the plan leaves open: contents and where clients connect
	Nodes   int    // that run from the beginning; further ones come by events
	Keys    int    // aggregation keys
	Clients int    // for each key
	Polls   int    // polling clients for each key, besides those
	Size    int    // names of each type and key
	SotW    bool   // the control plane speaks the state of the world, else delta
	Guard   bool   // removal_guard.max_percent is 50
	Kept    string // last_known_good.store
	// Rollouts says that all keys have a rollout policy.
	Rollouts bool
	Length   time.Duration // until all faults end
}

// Event is something that happens, and for how long.
type Event struct {
	At   time.Duration // since the first rest
	For  time.Duration // 0 for what has no duration
	Do   string        // the name of an act
	Args []string      // what it is done to
}

// End is when it is over.
func (e Event) End() time.Duration { return e.At + e.For }

// endOf is when an event ends in a plan: what lasts at the end of the plan ends there, and
// what begins later goes on for its whole time.
func (p Plan) endOf(e Event) time.Duration {
	if e.At >= p.Length {
		return e.End()
	}
	return min(e.End(), p.Length)
}

// String is the event in a line, as Parse reads it.
func (e Event) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", e.At, e.For, e.Do, strings.Join(e.Args, " ")))
}

// String is the plan as Parse reads it.
func (p Plan) String() string {
	var b strings.Builder
	s := p.Setup
	fmt.Fprintf(&b, "seed=%d nodes=%d keys=%d clients=%d polls=%d size=%d sotw=%t guard=%t kept=%s length=%s",
		s.Seed, s.Nodes, s.Keys, s.Clients, s.Polls, s.Size, s.SotW, s.Guard, s.Kept, s.Length)
	if s.Rollouts {
		b.WriteString(" rollouts=true")
	}
	b.WriteByte('\n')
	for _, e := range p.Events {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

// Parse reads what String writes.
func Parse(text string) (p Plan, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#':
		case strings.HasPrefix(line, "seed="):
			err = p.parse(line)
		default:
			var e Event
			e, err = parseEvent(line)
			p.Events = append(p.Events, e)
		}
		if err != nil {
			return p, fmt.Errorf("plan, line %d: %w", n, err)
		}
	}
	if p.Nodes == 0 {
		return p, errors.New("plan: expected a line like seed=1 nodes=3 keys=2 clients=8 size=6 sotw=false guard=true kept=none length=5m")
	}
	p.sort()
	return p, lines.Err()
}

func (s *Setup) parse(line string) error {
	for field := range strings.FieldsSeq(line) {
		name, value, _ := strings.Cut(field, "=")
		var err error
		switch name {
		case "seed":
			s.Seed, err = strconv.ParseUint(value, 10, 64)
		case "nodes":
			s.Nodes, err = strconv.Atoi(value)
		case "keys":
			s.Keys, err = strconv.Atoi(value)
		case "clients":
			s.Clients, err = strconv.Atoi(value)
		case "polls":
			s.Polls, err = strconv.Atoi(value)
		case "size":
			s.Size, err = strconv.Atoi(value)
		case "sotw":
			s.SotW, err = strconv.ParseBool(value)
		case "guard":
			s.Guard, err = strconv.ParseBool(value)
		case "kept":
			s.Kept = value
		case "rollouts":
			s.Rollouts, err = strconv.ParseBool(value)
		case "length":
			s.Length, err = time.ParseDuration(value)
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func parseEvent(line string) (e Event, err error) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return e, fmt.Errorf("%q: expected when, for how long, what, and what to", line)
	}
	if e.At, err = time.ParseDuration(fields[0]); err != nil {
		return e, err
	}
	if e.For, err = time.ParseDuration(fields[1]); err != nil {
		return e, err
	}
	e.Do, e.Args = fields[2], fields[3:]
	if acts[e.Do] == nil {
		return e, fmt.Errorf("%q: there is no act %q", line, e.Do)
	}
	return e, nil
}

// sort puts events in the order of their times.
func (p *Plan) sort() {
	slices.SortStableFunc(p.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
}
