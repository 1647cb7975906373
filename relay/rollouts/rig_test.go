package rollouts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

var clusters = resource.TypeOf(resource.ClusterURL)

// habit is what a client does with a revision that it is sent.
type habit uint8

const (
	accepts habit = iota
	rejects
	ignores // never answers
	crashes // ends its stream, and comes back
)

// client is a client of a fleet.
type client struct {
	fanout.Canary

	key, source, version string
	ineligible           bool
	habit                habit
	connected            bool
	arm                  fanout.Arm
	exposure             fanout.Exposure
	since                time.Time
	got                  []string // revisions that it was sent as a canary, in order
	types                []string // that it sees, on a stream each
}

// shown is what the clients of a key are shown.
type shown struct {
	group    *cache.Group
	revision string
	arm      func(fanout.Canary) fanout.Arm // nil: all are canaries
	notify   func(fanout.CanaryEvent)
}

// fleet is a fake of the clients of a node. All that takes time happens on timers. Its lock stands for that
// of a stream: it is held while events are notified.
type fleet struct {
	mu      sync.Mutex
	clients []*client
	shows   map[string]*shown // by key
	hidden  []bool            // promoted, of each call of Hide
}

const answerTime = 10 * time.Millisecond

func (f *fleet) Show(g *cache.Group, c *cache.Candidate, arm func(fanout.Canary) fanout.Arm, notify func(fanout.CanaryEvent)) {
	f.show(&shown{g, c.Revision, arm, notify})
}

func (f *fleet) Watch(g *cache.Group, revision string, _ []*cache.Table, _ time.Time, notify func(fanout.CanaryEvent)) {
	f.show(&shown{g, revision, nil, notify})
}

func (f *fleet) Hide(g *cache.Group, promoted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.shows, string(g.Key))
	f.hidden = append(f.hidden, promoted)
	for _, c := range f.clients {
		if c.key == string(g.Key) {
			c.arm, c.exposure = fanout.NoArm, fanout.NotExposed
		}
	}
}

func (f *fleet) show(s *shown) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shows[string(s.group.Key)] = s
	for _, c := range f.clients {
		if c.key == string(s.group.Key) && c.connected {
			f.seesLocked(c, s)
		}
	}
}

// seesLocked makes a client see what it should.
func (f *fleet) seesLocked(c *client, s *shown) {
	c.arm = fanout.CanaryArm
	if s.arm != nil {
		c.arm = s.arm(c.Canary)
	}
	if c.arm != fanout.CanaryArm {
		c.exposure = fanout.NotExposed
		return
	}
	if n := len(c.got); n > 0 && c.got[n-1] == s.revision && c.exposure != fanout.NotExposed {
		return
	}
	c.got = append(c.got, s.revision)
	c.exposure, c.since = fanout.Exposed, time.Now()
	time.AfterFunc(answerTime, func() { f.answer(c, s) })
}

func (f *fleet) answer(c *client, s *shown) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shows[c.key] == nil || f.shows[c.key].revision != s.revision || !c.connected || c.exposure != fanout.Exposed {
		return
	}
	switch c.habit {
	case accepts:
		c.exposure = fanout.Accepted
		f.notifyLocked(c, fanout.CanaryEvent{Exposure: fanout.Accepted})
	case rejects:
		c.exposure = fanout.Rejected
		f.notifyLocked(c, fanout.CanaryEvent{Exposure: fanout.Rejected, Reason: "cluster payments: bad"})
	case crashes:
		f.disconnectLocked(c, true)
		time.AfterFunc(answerTime, func() { f.connect(c) })
	}
}

// disconnectLocked ends the stream of a client. lost says that this side did not end it.
func (f *fleet) disconnectLocked(c *client, lost bool) {
	c.connected = false
	if c.arm != fanout.NoArm {
		f.notifyLocked(c, fanout.CanaryEvent{Exposure: c.exposure, Ended: true, Lost: lost})
	}
	c.arm, c.exposure = fanout.NoArm, fanout.NotExposed
}

func (f *fleet) notifyLocked(c *client, e fanout.CanaryEvent) {
	s := f.shows[c.key]
	if s == nil {
		return
	}
	e.Canary, e.Arm, e.Source, e.Key, e.Revision, e.At = c.Canary, c.arm, c.source, c.key, s.revision, time.Now()
	e.Type = resource.ClusterURL
	s.notify(e)
}

func (f *fleet) connect(c *client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.connected = true
	if s := f.shows[c.key]; s != nil {
		f.seesLocked(c, s)
	}
}

func (f *fleet) disconnect(c *client, lost bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disconnectLocked(c, lost)
}

func (f *fleet) Canaries(g *cache.Group) (all []fanout.CanaryStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shows[string(g.Key)] == nil {
		return nil
	}
	for _, c := range f.clients {
		if c.key == string(g.Key) && c.connected && c.arm != fanout.NoArm {
			s := fanout.CanaryStatus{Canary: c.Canary, Arm: c.arm, Exposure: c.exposure}
			if c.exposure == fanout.Exposed {
				s.Since = c.since
			}
			all = append(all, s)
		}
	}
	return all
}

func (f *fleet) Affected(g *cache.Group, _ *cache.Candidate) (all []fanout.Affected) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		if c.key != string(g.Key) || !c.connected {
			continue
		}
		all = append(all, fanout.Affected{Canary: c.Canary})
		for _, url := range c.types {
			all = append(all, fanout.Affected{Canary: c.Canary, Types: []string{url}})
		}
	}
	return all
}

// traits are those of a client, by its id.
func (f *fleet) traits(a *fanout.Affected) Traits {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.clients, func(c *client) bool { return c.ID == a.ID })
	return Traits{Eligible: !f.clients[i].ineligible, Version: f.clients[i].version}
}

// with are the ids of the clients that were ever sent a revision as canaries.
func (f *fleet) with(revision string) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		if slices.Contains(c.got, revision) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// become gives clients a habit.
func (f *fleet) become(h habit, of func(*client) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		if of(c) {
			c.habit = h
		}
	}
}

func everybody(*client) bool { return true }

// stage is a controller with the keys of a test, in a bubble.
type stage struct {
	t     *testing.T
	fleet *fleet
	cache *cache.Cache
	feeds chan *cache.Feed
	feed  map[string]*cache.Feed // by key

	policy  *rollout.Policy
	limits  rollout.Limits
	ask     func(context.Context, *rollout.Question) rollout.CheckResult
	control *Controller
	stop    func()
	watcher []*cache.Watcher

	mu sync.Mutex
	// Guarded by mu.
	saved     Records
	broken    error // of writing records
	decisions []Decision
	effective []*Effective
}

// bubble runs a test with a controller, 10 clients of a key in two versions, and a policy with one step.
func bubble(t *testing.T, f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{
			t: t, fleet: &fleet{shows: make(map[string]*shown)}, feeds: make(chan *cache.Feed, 64), feed: make(map[string]*cache.Feed),
			limits: rollout.Limits{Shares: []rollout.Share{1}},
		}
		s.policy = (&rollout.Policy{
			Name: "mine", Mode: rollout.Automatic, Steps: []rollout.Step{{Share: 0.5, Bake: time.Minute}}, Final: 5 * time.Minute,
			Canaries: rollout.Canaries{Small: 1},
		}).WithDefaults()
		s.cache = s.newCache()
		for i := range 10 {
			s.join("shop", fmt.Sprint("client-", i), fmt.Sprint("v", i%2))
		}
		s.start(Records{})
		defer func() {
			s.stop()
			for _, wrong := range s.cache.Check() {
				t.Error(wrong)
			}
			s.cache.Close()
		}()
		f(s)
	})
}

func (s *stage) newCache() *cache.Cache {
	s.t.Helper()
	c, err := cache.New(cache.Config{
		HistoryBytes: 1 << 20,
		Run:          func(ctx context.Context, f *cache.Feed) { s.feeds <- f; <-ctx.Done() },
		Wake:         func([]*cache.Subscription) {},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// start runs a controller with the records of an earlier one.
func (s *stage) start(earlier Records) {
	s.control = New(Config{
		Rules: func(string) Rule {
			if s.policy == nil {
				return Rule{}
			}
			return Rule{Policy: s.policy, Traits: s.fleet.traits}
		},
		Limits: func() rollout.Limits { return s.limits }, Clients: s.fleet, Total: func() int { return len(s.fleet.clients) },
		Group: s.cache.GroupOf,
		Save: func(r Records) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.broken == nil {
				s.saved = r
			}
			return s.broken
		},
		Ask: func(ctx context.Context, q *rollout.Question) rollout.CheckResult { return s.ask(ctx, q) },
		Decided: func(d Decision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.decisions = append(s.decisions, d)
		},
		Effective: func(e *Effective) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.effective = append(s.effective, e)
		},
		Logger: slog.New(slog.DiscardHandler),
	}, earlier)
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() { s.control.Run(ctx); close(done) }()
	s.stop = func() { cancel(); <-done }
}

// restart is the end of the process and a new one: clients connect again, and the control plane sends what
// it had sent.
func (s *stage) restart(sends func()) {
	s.t.Helper()
	s.stop()
	s.cache.Close()
	s.fleet.mu.Lock()
	clear(s.fleet.shows)
	for _, c := range s.fleet.clients {
		c.arm, c.exposure = fanout.NoArm, fanout.NotExposed
	}
	s.fleet.mu.Unlock()
	s.cache = s.newCache()
	clear(s.feed)
	s.mu.Lock()
	earlier := s.saved
	s.mu.Unlock()
	s.start(earlier)
	sends()
}

// join connects a client.
func (s *stage) join(key, id, version string) *client {
	c := &client{Canary: fanout.Canary{ID: id}, key: key, version: version, source: "source of " + id, connected: true}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	s.fleet.clients = append(s.fleet.clients, c)
	return c
}

func (s *stage) group(key string) *cache.Group { return s.cache.GroupOf(aggregation.Key(key)) }

// sends makes the control plane of a key send clusters with a content, as name=content.
func (s *stage) sends(key string, all ...string) {
	s.t.Helper()
	if s.feed[key] == nil {
		g := s.cache.Join(aggregation.Key(key), &corev3.Node{Id: "node"})
		s.control.Attach(g, "rule")
		w := &cache.Watcher{Client: nobody{}}
		g.Table(clusters).Replace(w, true, nil)
		s.watcher = append(s.watcher, w)
		s.feed[key] = <-s.feeds
		s.feed[key].Up()
		s.feed[key].TakeDemand(true, true)
	}
	u := cache.Update{Type: clusters, Full: true, Version: strings.Join(all, " ")}
	for _, one := range all {
		name, content, _ := strings.Cut(one, "=")
		u.Resources = append(u.Resources, resource.New(resource.Resource{Name: name, Body: []byte(content)}))
	}
	s.feed[key].Apply(u)
}

type nobody struct{}

func (nobody) Flush() {}

// begins sends the first configuration of a key, which passes at once.
func (s *stage) begins(key string) {
	s.t.Helper()
	s.sends(key, "a=1")
	sleep(5 * time.Second)
	if s.policy != nil {
		s.is(key, "Idle")
	}
	s.shows(key, "1")
}

// shows fails unless the clients of a key, except canaries, see a content of cluster a.
func (s *stage) shows(key, content string) {
	s.t.Helper()
	synctest.Wait()
	w := s.watcher[len(s.watcher)-1]
	if key != "shop" {
		w = &cache.Watcher{Client: nobody{}}
		s.group(key).Table(clusters).Replace(w, true, nil)
	}
	got, err := s.group(key).Table(clusters).Changes(w, cache.Query{Since: cache.Start})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range got.Resources {
		if r.Name == "a" && string(r.Body) != content {
			s.t.Errorf("clients of %s see %s, expected %s", key, r.Body, content)
		}
	}
}

func (s *stage) status(key string) Status {
	s.t.Helper()
	synctest.Wait()
	is, ok := s.control.Status(key)
	if !ok {
		s.t.Fatalf("%s has no status", key)
	}
	return is
}

func (s *stage) is(key, state string) Status {
	s.t.Helper()
	is := s.status(key)
	if is.State != state {
		s.t.Errorf("%s is %q, expected %q: %+v", key, is.State, state, is)
	}
	return is
}

func (s *stage) order(what string, wrong error) {
	s.t.Helper()
	if err := s.control.Order(what, "shop", "somebody", "a test"); !errors.Is(err, wrong) {
		s.t.Errorf("%s: %v, expected %v", what, err, wrong)
	}
}

// breaks makes the records impossible to write; nil ends that.
func (s *stage) breaks(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// did are the decisions about a key so far.
func (s *stage) did(key string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.decisions {
		if d.Key == key {
			all = append(all, d.What)
		}
	}
	return all
}

func (s *stage) expects(key string, want ...string) {
	s.t.Helper()
	if got := s.did(key); !slices.Equal(got, want) {
		s.t.Errorf("decisions about %s: %q, expected %q", key, got, want)
	}
}

// sleep lets virtual time pass.
func sleep(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time
