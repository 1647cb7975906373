package robust

import (
	"fmt"
	"time"

	"xdsrelay/relay/robust/check"
	"xdsrelay/relay/robust/record"
	"xdsrelay/relay/xdstest"
)

const (
	// oneStroke is how far apart removals are recorded that a control plane makes at one stroke.
	oneStroke = 100 * time.Millisecond
	// fewest is of how many resources a removal of all is surely a mass removal.
	fewest = 4
	// inTime is how long before the end of a hold a control plane has to be put right, so that
	// nodes certainly hear of it.
	inTime = time.Second
)

// guarded judges the removal guard: a control plane that loses all clusters or listeners of a
// key takes none of them from clients while the hold lasts, and later only those that it has not
// got back within the hold. Faults that keep nodes from what others hold excuse that, since a node cannot
// hold back what it does not know. It belongs to the goroutine of its test.
type guarded struct {
	faults  int // that last and excuse
	origin  map[typeOfKey]map[string]bool
	gone    map[typeOfKey][]removal // the last removals
	emptied map[typeOfKey]*emptying
	clients map[string]*guardedClient
}

type typeOfKey struct{ key, typeURL string }

type removal struct {
	name string
	at   time.Duration
}

// emptying is that a control plane lost all resources of a type.
type emptying struct {
	at time.Duration
	// back has those that have not changed since but by coming back: when that was, 0: not yet.
	back map[string]time.Duration
}

type guardedClient struct {
	key      string
	attached bool
	held     map[string]map[string]bool // by type URL
}

func newGuarded() *guarded {
	return &guarded{
		origin: make(map[typeOfKey]map[string]bool), gone: make(map[typeOfKey][]removal),
		emptied: make(map[typeOfKey]*emptying), clients: make(map[string]*guardedClient),
	}
}

// trouble notes that a fault begins or ends.
func (g *guarded) trouble(f chosen, begins bool) {
	switch {
	case f.area == originArea:
	case begins:
		g.faults++
		clear(g.emptied)
	default:
		g.faults--
	}
}

// observe takes the next event, and returns what it contradicts.
func (g *guarded) observe(e *record.Event) (found []check.Contradiction) {
	c := g.clients[e.Client]
	switch e.Kind {
	case record.OriginState:
		if xdstest.FullState(e.Type) {
			g.state(e)
		}
	case record.Rest:
		clear(g.emptied)
	case record.ClientNew:
		g.clients[e.Client] = &guardedClient{key: e.Key, held: make(map[string]map[string]bool)}
	case record.ClientOpen, record.ClientEnd:
		c.attached = e.Kind == record.ClientOpen
	case record.ClientGot:
		if xdstest.FullState(e.Type) {
			found = g.got(c, e)
		}
	}
	return found
}

func (g *guarded) state(e *record.Event) {
	of := typeOfKey{e.Key, e.Type}
	has := g.origin[of]
	if has == nil {
		has = make(map[string]bool)
		g.origin[of] = has
	}
	lost := g.emptied[of]
	for _, r := range e.Resources {
		if r.Serial != 0 {
			has[r.Name] = true
			if lost != nil {
				if at, is := lost.back[r.Name]; is && at == 0 {
					lost.back[r.Name] = e.At
				}
			}
			continue
		}
		delete(has, r.Name)
		g.gone[of] = append(g.gone[of], removal{r.Name, e.At})
		if lost != nil {
			delete(lost.back, r.Name)
		}
	}
	if len(has) == 0 && g.faults == 0 && g.serves(e.Key) {
		lost = &emptying{at: e.At, back: make(map[string]time.Duration)}
		for _, r := range g.gone[of] {
			if e.At-r.at < oneStroke {
				lost.back[r.name] = 0
			}
		}
		if len(lost.back) >= fewest {
			g.emptied[of] = lost
		}
		delete(g.gone, of)
	}
}

// serves reports whether any client of a key has a stream: a key without clients is forgotten.
func (g *guarded) serves(key string) bool {
	for _, c := range g.clients {
		if c.key == key && c.attached {
			return true
		}
	}
	return false
}

func (g *guarded) got(c *guardedClient, e *record.Event) (found []check.Contradiction) {
	before, now := c.held[e.Type], make(map[string]bool)
	for _, r := range e.Resources {
		now[r.Name] = true
	}
	if e.Delta {
		for name := range before {
			now[name] = true
		}
		for _, name := range e.Removed {
			delete(now, name)
		}
	}
	c.held[e.Type] = now
	lost := g.emptied[typeOfKey{c.key, e.Type}]
	for name := range before {
		if !now[name] && lost != nil && lost.keeps(name, e.At) {
			found = append(found, check.Contradiction{Guarantee: "Guarded", Event: *e, Text: fmt.Sprintf(
				"client %s loses %s of %s %s after the control plane became empty (it had it back after %s)",
				e.Client, name, record.ShortType(e.Type), e.At-lost.at, max(0, lost.back[name]-lost.at))})
		}
	}
	return found
}

// keeps reports whether clients have to keep a resource that was lost.
func (l *emptying) keeps(name string, now time.Duration) bool {
	back, is := l.back[name]
	return is && (now-l.at < guardHold || back > 0 && back-l.at < guardHold-inTime)
}
