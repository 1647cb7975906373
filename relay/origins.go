package relay

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/telemetry"
	"xdsrelay/upstream"
)

// origins are where configuration comes from, and which of them serves what (G3).
// They are not changed once made.
type origins struct {
	all []namedOrigin // in the order of the configuration

	// legs are the upstream streams of each key, and owners the origins that they
	// lead to, as indices of all.
	legs   []cache.OriginStream
	owners []int

	authorities map[string]int // of structured names
	types       map[string]int // by URL, of those that the first origin does not serve
	strangers   *strangers     // authorities of names that clients asked for and nobody serves
}

// servesAny reports whether names of all authorities are served by the first origin: it
// is the only one, and lists none (G3).
func (o *origins) servesAny() bool { return len(o.all) == 1 && len(o.authorities) == 0 }

// strangers are authorities that no origin serves. What was refused because of that is
// logged once for each.
type strangers struct {
	log *slog.Logger // fixed

	mu   sync.Mutex
	seen map[string]struct{} // guarded by mu
}

// mostStrangers bounds what is remembered and logged of them: clients may make them up.
const mostStrangers = 20

func (s *strangers) add(authority string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.seen[authority]; known || len(s.seen) >= mostStrangers {
		return
	}
	s.seen[authority] = struct{}{}
	// The caller holds the lock of a table, for which nothing may wait.
	go s.log.Warn("a client subscribed to names of an authority without a configured control plane; they do not exist for it; add the authority to upstream.authorities",
		"authority", strings.ToValidUTF8(authority[:min(len(authority), 256)], "?"))
}

// problems says which authorities are not served, for operators.
func (s *strangers) problems() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a := range s.seen {
		all = append(all, fmt.Sprintf("clients subscribed to names of authority %q, which has no configured control plane (upstream.authorities)", a[:min(len(a), 256)]))
	}
	slices.Sort(all)
	return all
}

// namedOrigin is an origin with the legs that lead to it.
type namedOrigin struct {
	origin
	name     string
	describe func() ops.OriginInfo
	leg      int
	// names is a leg of their own for the names of some types, by URL (D11).
	names map[string]int
}

// newOrigins makes the origins that cfg names; secured makes their credentials, and dial
// is added to what control planes are connected with. On an error nothing is left open.
func newOrigins(cfg *config.Config, secured secureFor, dial []grpc.DialOption, tel *telemetry.Telemetry, log *slog.Logger) (*origins, error) {
	o := &origins{
		authorities: make(map[string]int), types: make(map[string]int),
		strangers: &strangers{log: log, seen: make(map[string]struct{})},
	}
	for i, one := range cfg.AllUpstreams() {
		label, log := one.Name, log
		if i == 0 {
			label = "" // as if there were no others
		} else {
			log = log.With("upstream", one.Name)
		}
		if err := o.add(label, cfg.UpstreamPath(i), one, secured, dial, tel, log); err != nil {
			o.Close()
			if i > 0 {
				err = fmt.Errorf("upstream %q: %w", one.Name, err)
			}
			return nil, err
		}
	}
	return o, nil
}

func (o *origins) add(label, section string, cfg config.NamedUpstream, secured secureFor, dial []grpc.DialOption, tel *telemetry.Telemetry, log *slog.Logger) error {
	name, types := cfg.Name, cfg.Types
	made, err := newOrigin(label, section, cfg.Upstream, secured, dial, tel, log)
	if err != nil {
		return err
	}
	index := len(o.all)
	made.name, made.leg = name, o.addLeg(cache.OriginStream{Origin: name, MaxNames: maxNames(cfg.Upstream)}, index)
	if len(cfg.SeparateNames) > 0 {
		made.names = make(map[string]int)
		leg := o.addLeg(cache.OriginStream{Origin: name, Names: true, MaxNames: maxNames(cfg.Upstream)}, index)
		for _, t := range cfg.SeparateNames {
			made.names[resource.TypeNamed(t).URL] = leg
		}
	}
	for _, a := range cfg.Authorities {
		o.authorities[a] = index
	}
	for _, t := range types {
		o.types[resource.TypeNamed(t).URL] = index
	}
	describe := made.describe
	made.describe = func() ops.OriginInfo {
		info := describe()
		info.Name, info.Authorities, info.Types, info.SeparateNames = name, cfg.Authorities, types, cfg.SeparateNames
		return info
	}
	o.all = append(o.all, made)
	return nil
}

// maxNames is what the names of a type may take that one key asks an origin for; 0 for
// a directory, which is asked nothing. SotW requests cannot be divided.
func maxNames(cfg config.Upstream) int {
	switch {
	case cfg.Directory != "":
		return 0
	case cfg.Variant == config.SotW:
		return min(int(cfg.MaxNamesSize), upstream.NamesThatFit(int(cfg.MaxRequestSize)))
	}
	return int(cfg.MaxNamesSize)
}

func (o *origins) addLeg(leg cache.OriginStream, owner int) int {
	o.legs, o.owners = append(o.legs, leg), append(o.owners, owner)
	return len(o.legs) - 1
}

// route says which leg serves a name. Structured names go by their authority
// (G3), all others by their type. Nobody is asked for what an origin cannot serve
// (D8).
func (o *origins) route(t *resource.Type, name string) int {
	index := o.types[t.URL] // 0, the first origin, where the type is nobody else's
	if resource.IsURN(name) {
		urn, err := resource.ParseURN(name)
		if err != nil {
			return cache.Nobody
		}
		var known bool
		if index, known = o.authorities[urn.Authority]; !known && !o.servesAny() {
			o.strangers.add(urn.Authority)
			return cache.Nobody
		}
	}
	owner := &o.all[index]
	if !owner.Serves(t, name) {
		return cache.Nobody
	}
	if leg, separate := owner.names[t.URL]; separate && name != wildcard {
		return leg
	}
	return owner.leg
}

// wildcard is the name that stands for everything.
const wildcard = "*"

// Run keeps a feed in step with its origin until ctx ends.
func (o *origins) Run(ctx context.Context, f *cache.Feed) { o.all[o.owners[f.Stream()]].Run(ctx, f) }

// watch keeps connections to all control planes until ctx ends, so that one that cannot be
// reached is known before a client wants something of it.
func (o *origins) watch(ctx context.Context) {
	var all sync.WaitGroup
	for cp := range o.controlPlanes() {
		all.Go(func() { cp.Watch(ctx) })
	}
	all.Wait()
}

// controlPlanes goes through the origins that are control planes.
func (o *origins) controlPlanes() iter.Seq[*upstream.ControlPlane] {
	return func(yield func(*upstream.ControlPlane) bool) {
		for _, one := range o.all {
			if cp, ok := one.origin.(*upstream.ControlPlane); ok && !yield(cp) {
				return
			}
		}
	}
}

// reconnect is Reconnect, or with dry only the number.
func (n *Node) reconnect(dry bool) (controlPlanes int) {
	if !dry {
		defer func() { n.log.Info("reconnecting on request", "control_planes", controlPlanes) }()
		return n.Reconnect()
	}
	for range n.origins.controlPlanes() {
		controlPlanes++
	}
	return controlPlanes
}

// Reconnect makes the node try its control planes now instead of after the pauses that
// have grown while they were down, and returns how many it has. Streams that work stay.
func (n *Node) Reconnect() (controlPlanes int) {
	for cp := range n.origins.controlPlanes() {
		cp.Reconnect()
		controlPlanes++
	}
	return controlPlanes
}

// Close ends what all keys share. No Run goes on any more.
func (o *origins) Close() {
	for _, one := range o.all {
		one.Close()
	}
}

// describe tells what there is to know of each origin.
func (o *origins) describe() (all []ops.OriginInfo) {
	for i, one := range o.all {
		info := one.describe()
		if i == 0 {
			info.Problems = append(info.Problems, o.strangers.problems()...)
		}
		all = append(all, info)
	}
	return all
}

// loadOrigin is the control plane that takes load reports: the first origin, if
// it is one; nil otherwise.
func (o *origins) loadOrigin() *upstream.ControlPlane {
	cp, _ := o.all[0].origin.(*upstream.ControlPlane)
	return cp
}
