package demo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// slowShare says that one client in so many takes its time over each response.
const slowShare = 10

// fleet is all clients.
type fleet struct {
	clients []*client       // fixed, but for one that a tier adds
	keys    []string        // fixed, sorted
	life    context.Context // of all of them
	cancel  context.CancelFunc
}

// newFleet makes a fleet of which no client runs yet.
func newFleet(clients []*client, keys []string) *fleet {
	f := &fleet{keys: keys, clients: clients}
	f.life, f.cancel = context.WithCancel(context.Background())
	return f
}

// startFleet lets clients connect to the relay.
func startFleet(addr string, clients []*client, keys []string) (*fleet, error) {
	f := newFleet(clients, keys)
	for _, c := range f.clients {
		if err := c.start(f.life, []string{addr}); err != nil {
			f.stop()
			return nil, err
		}
	}
	return f, nil
}

// newClients makes clients of all kinds, in fixed shares: of keys, of kinds in each, and of
// slow ones.
func newClients(cfg Config, files *directory) []*client {
	keys := files.keys()
	services := make(map[string][]string)
	for _, key := range keys {
		for r, f := range files.content(key) {
			if f.service {
				services[key] = append(services[key], r.name)
			}
		}
		slices.Sort(services[key])
	}
	clients := make([]*client, 0, cfg.Clients)
	seen := make(map[string]int) // clients of a key so far
	spread := newSpread(kinds())
	for i := range cfg.Clients {
		key := keys[i%len(keys)]
		k := spread(key, len(services[key]) > 0)
		seen[key]++
		c := &client{
			id: fmt.Sprintf("%s-%s-%d", key, strings.ReplaceAll(strings.ToLower(k.name), " ", "-"), seen[key]), key: key, kind: k,
			library: files.library, asked: make(map[string][]string), held: make(map[ref]holding), rejected: make(map[ref]error),
		}
		if k.service {
			c.service = services[key][seen[key]%len(services[key])]
		}
		if i%slowShare == slowShare-1 {
			c.slow = cfg.Slow
		}
		clients = append(clients, c)
	}
	return clients
}

// newSpread returns a function that gives each key its kinds in turn, by weight.
// Without a service, kinds that need one get no turn.
func newSpread(all []*kind) func(key string, service bool) *kind {
	given := make(map[string]map[*kind]int)
	return func(key string, service bool) *kind {
		if given[key] == nil {
			given[key] = make(map[*kind]int)
		}
		// The kind that is furthest behind its share.
		next := slices.MinFunc(all, func(a, b *kind) int {
			if a.service != b.service && !service {
				return map[bool]int{true: 1, false: -1}[a.service]
			}
			return cmp.Compare((given[key][a]+1)*b.weight, (given[key][b]+1)*a.weight)
		})
		given[key][next]++
		return next
	}
}

// stop ends all clients.
func (f *fleet) stop() {
	f.cancel()
	for _, c := range f.clients {
		c.stop()
	}
}

// lack is a resource that a client does not hold as it should.
type lack struct {
	client *client
	ref
	why      string
	rejected bool
}

// verify compares what every client holds with the files. Nothing that the
// relay says of itself comes into it.
func (f *fleet) verify(files *directory) (lacks []lack) {
	expected := newExpectation(files)
	for _, c := range f.clients {
		want, held := expected.of(c), c.holds()
		_, trouble := c.openStreams()
		c.mu.Lock()
		rejected := maps.Clone(c.rejected)
		c.mu.Unlock()
		for r, w := range want {
			h, ok := held[r]
			var why string
			switch {
			case ok && h.sum == w.sum:
				continue
			case rejected[r] != nil:
				why = "rejected it: " + rejected[r].Error()
			case ok:
				why = "has another version"
			case trouble != nil:
				why = "does not have the resource, and has no stream: " + trouble.Error()
			default:
				why = "does not have the resource"
			}
			lacks = append(lacks, lack{c, r, why, rejected[r] != nil})
		}
		for r := range held {
			if want[r] == nil {
				lacks = append(lacks, lack{c, r, "has the resource, although it should not", false})
			}
		}
	}
	slices.SortFunc(lacks, func(a, b lack) int {
		return cmp.Or(cmp.Compare(a.client.id, b.client.id), cmp.Compare(a.ref.String(), b.ref.String()))
	})
	return lacks
}

// refused reports whether all that clients lack was rejected by them, so that
// there is nothing to wait for.
func (f *fleet) refused(files *directory) bool {
	lacks := f.verify(files)
	return len(lacks) > 0 && !slices.ContainsFunc(lacks, func(l lack) bool { return !l.rejected })
}

func countClients(lacks []lack) int {
	seen := make(map[*client]struct{})
	for _, l := range lacks {
		seen[l.client] = struct{}{}
	}
	return len(seen)
}

// expectation works out what clients have to hold, once for all that are alike.
type expectation struct {
	files *directory
	known map[likeness]map[ref]*facts
}

// likeness is what decides about what a client holds.
type likeness struct {
	key, service string
	kind         *kind
}

func newExpectation(files *directory) *expectation {
	return &expectation{files: files, known: make(map[likeness]map[ref]*facts)}
}

func (e *expectation) of(c *client) map[ref]*facts {
	l := likeness{c.key, c.service, c.kind}
	want, ok := e.known[l]
	if !ok {
		want = c.kind.expects(c.service, e.files.content(c.key))
		e.known[l] = want
	}
	return want
}
