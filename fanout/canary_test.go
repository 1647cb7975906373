package fanout

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// trial is a key with a canary and another client, which both have clusters "a", "b" and "c", each in
// version 1.
type trial struct {
	*world

	canary, other *xdstest.Stream
	table         *cache.Table
	group         *cache.Group

	mu     sync.Mutex
	events []CanaryEvent // guarded by mu
}

func newTrial(t *testing.T, delta bool) *trial {
	t.Helper()
	r := &trial{world: newWorld(t)}
	r.canary, r.other = r.as("canary").Open(xdstest.Variant{Delta: delta}), r.open(delta)
	r.canary.Subscribe(cds)
	r.other.Subscribe(cds)
	r.asked(cds, "*")
	r.serve("v1", cds, cluster("a", 1), cluster("b", 1), cluster("c", 1))
	for _, s := range []*xdstest.Stream{r.canary, r.other} {
		s.Ack(has(t, s.Recv(t), "a", "b", "c"))
	}
	r.settledAll(cds, Synced)
	r.group = r.cache.Groups()[0]
	r.table = r.group.Table(resource.TypeOf(cds))
	return r
}

// as returns a connection of a client with a node id.
func (w *world) as(id string) *xdstest.Conn {
	c := w.dial()
	c.Node = xdstest.Node(id, "test-cluster")
	return c
}

// armOf is for canaries, without a control group.
func armOf(canary func(Canary) bool) func(Canary) Arm {
	return func(c Canary) Arm {
		if canary(c) {
			return CanaryArm
		}
		return NoArm
	}
}

// candidate is a candidate that changes clusters, and removes some.
func (r *trial) candidate(revision string, removed []string, changed ...proto.Message) *cache.Candidate {
	replace := make(map[string]cache.Replacement)
	for _, res := range resources(r.t, changed...) {
		replace[res.Key] = cache.Replacement{Resource: res, Member: true}
	}
	for _, n := range removed {
		replace[n] = cache.Replacement{}
	}
	return cache.NewCandidate(revision, map[*cache.Table]*cache.View{r.table: r.table.NewView(replace, cache.Stamp{})})
}

func (r *trial) show(c *cache.Candidate) {
	r.srv.Show(r.group, c, armOf(func(of Canary) bool { return of.ID == "canary" }), func(e CanaryEvent) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	})
}

// exposures are those of the events so far.
func (r *trial) exposures() (all []Exposure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		all = append(all, e.Exposure)
	}
	return all
}

// TestCanaryEntersAndLeaves: a canary is sent what the candidate changes, and on the way back what it
// changed; nobody else is sent anything.
func TestCanaryEntersAndLeaves(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", []string{"c"}, cluster("a", 2), cluster("d", 1)))
		f := r.canary.Recv(t)
		if delta {
			hasRemoved(t, f, []string{"c"}, "a", "d")
		} else {
			has(t, f, "a", "b", "d")
		}
		isVersion(t, f, "a", 2)
		r.canary.Ack(f)
		r.other.Quiet(t, short)
		r.canary.Quiet(t, short)
		r.srv.Hide(r.group, false)
		f = r.canary.Recv(t)
		if delta {
			hasRemoved(t, f, []string{"d"}, "a", "c")
		} else {
			has(t, f, "a", "b", "c")
		}
		isVersion(t, f, "a", 1)
		r.canary.Ack(f)
		r.other.Quiet(t, short)
		r.canary.Quiet(t, short)
		if got := r.exposures(); !slices.Equal(got, []Exposure{Accepted}) {
			t.Errorf("events: %v", got)
		}
		// Afterwards it is a client like any other.
		r.serve("v2", cds, cluster("a", 1), cluster("b", 2), cluster("c", 1))
		for _, s := range []*xdstest.Stream{r.canary, r.other} {
			f := s.Recv(t)
			isVersion(t, f, "b", 2)
			s.Ack(f)
		}
	})
}

// TestCandidateIsPromoted: when the tables get the candidate's content, the canary, which has it, is
// sent nothing.
func TestCandidateIsPromoted(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", []string{"c"}, cluster("a", 2), cluster("d", 1)))
		r.canary.Ack(r.canary.Recv(t))
		xdstest.Eventually(t, "the canary to accept", func() bool { return len(r.exposures()) == 1 })
		r.serve("v2", cds, cluster("a", 2), cluster("b", 1), cluster("d", 1))
		f := r.other.Recv(t)
		if delta {
			hasRemoved(t, f, []string{"c"}, "a", "d")
		} else {
			has(t, f, "a", "b", "d")
		}
		r.other.Ack(f)
		r.canary.Quiet(t, short)
		r.srv.Hide(r.group, true)
		r.canary.Quiet(t, short)
		r.other.Quiet(t, short)
		r.serve("v3", cds, cluster("a", 3), cluster("b", 1), cluster("d", 1))
		for _, s := range []*xdstest.Stream{r.canary, r.other} {
			f := s.Recv(t)
			isVersion(t, f, "a", 3)
			s.Ack(f)
		}
		r.canary.Quiet(t, short)
	})
}

// TestCanaryRejects: B14, B16: a canary that rejects the candidate is sent all of it the former way,
// although its type is held.
func TestCanaryRejects(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", nil, cluster("a", 2), cluster("d", 1)))
		r.canary.Nack(r.canary.Recv(t), "unknown field in a")
		xdstest.Eventually(t, "the canary to reject", func() bool { return slices.Equal(r.exposures(), []Exposure{Rejected}) })
		r.mu.Lock()
		e := r.events[0]
		r.mu.Unlock()
		if e.ID != "canary" || e.Revision != "r1" || e.Type != cds || e.Reason != "unknown field in a" || e.Key != string(r.group.Key) {
			t.Errorf("%+v", e)
		}
		r.canary.Quiet(t, short)
		r.srv.Hide(r.group, false)
		f := r.canary.Recv(t)
		if delta {
			hasRemoved(t, f, []string{"d"}, "a")
		} else {
			has(t, f, "a", "b", "c")
		}
		isVersion(t, f, "a", 1)
		r.canary.Ack(f)
		r.canary.Quiet(t, short)
		r.other.Quiet(t, short)
	})
}

// TestCanaryComesBack: B37, B39: a canary that reconnects is shown the candidate; one that holds all of
// it is sent no resources. A client that connects for the first time is sent the tables' content.
func TestCanaryComesBack(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", []string{"c"}, cluster("a", 2), cluster("d", 1)))
		f := r.canary.Recv(t)
		r.canary.Ack(f)
		xdstest.Eventually(t, "the canary to accept", func() bool { return len(r.exposures()) == 1 })
		r.canary.Cancel()
		xdstest.Eventually(t, "the canary to leave", func() bool { return r.srv.Count() == 1 })
		r.mu.Lock()
		if last := r.events[len(r.events)-1]; !last.Ended || !last.Lost || last.Exposure != Accepted {
			t.Errorf("%+v", last)
		}
		r.mu.Unlock()

		back := r.as("canary").Open(xdstest.Variant{Delta: delta})
		if delta {
			back.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 2)), "b": version(t, cluster("b", 1)), "d": version(t, cluster("d", 1))})
		} else {
			back.Resume(cds, f.Version, nil)
		}
		if delta {
			back.Ack(has(t, back.Recv(t))) // B24
		}
		back.Quiet(t, short)
		if all := r.srv.Canaries(r.group); len(all) != 1 || all[0].Exposure != Accepted {
			t.Errorf("%+v, expected that the canary holds the candidate", all)
		}

		stale := r.as("canary").Open(xdstest.Variant{Delta: delta})
		if delta {
			stale.Resume(cds, "", map[string]string{"a": version(t, cluster("a", 1)), "b": version(t, cluster("b", 1)), "c": version(t, cluster("c", 1))})
			stale.Ack(has(t, stale.Recv(t), "a", "d")) // E5: removals follow
			stale.Ack(hasRemoved(t, stale.Recv(t), []string{"c"}))
		} else {
			stale.Resume(cds, "other", nil)
			f := has(t, stale.Recv(t), "a", "b", "d")
			isVersion(t, f, "a", 2)
			stale.Ack(f)
		}

		fresh := r.as("fresh").Open(xdstest.Variant{Delta: delta})
		fresh.Subscribe(cds)
		f = has(t, fresh.Recv(t), "a", "b", "c")
		isVersion(t, f, "a", 1)
		fresh.Ack(f)

		first := r.as("canary").Open(xdstest.Variant{Delta: delta})
		first.Subscribe(cds)
		f = has(t, first.Recv(t), "a", "b", "d")
		isVersion(t, f, "a", 2)
		first.Ack(f)
		first.Quiet(t, short)
	})
}

// TestCandidateIsReplaced: a canary that holds one candidate is sent the next one, and what only the
// first one had as the tables have it.
func TestCandidateIsReplaced(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", nil, cluster("a", 2), cluster("d", 1)))
		r.canary.Ack(r.canary.Recv(t))
		r.show(r.candidate("r2", []string{"c"}, cluster("b", 2)))
		f := r.canary.Recv(t)
		if delta {
			hasRemoved(t, f, []string{"c", "d"}, "a", "b")
		} else {
			has(t, f, "a", "b")
		}
		isVersion(t, f, "a", 1)
		isVersion(t, f, "b", 2)
		r.canary.Ack(f)
		r.canary.Quiet(t, short)
		r.other.Quiet(t, short)
	})
}

// TestCandidateKeepsSome: what a canary holds of one candidate is not sent again with the next one. If it has
// rejected that, or has not answered yet, it is: otherwise it would count as a client that accepted it.
func TestCandidateKeepsSome(t *testing.T) {
	for answer, names := range map[string][]string{"accepted": {"b"}, "rejected": {"a", "b", "e"}, "none": {"a", "b", "e"}} {
		t.Run(answer, func(t *testing.T) {
			r := newTrial(t, true)
			r.show(r.candidate("r1", nil, cluster("a", 2), cluster("d", 1), cluster("e", 1)))
			first := r.canary.Recv(t)
			switch answer {
			case "accepted":
				r.canary.Ack(first)
				xdstest.Eventually(t, "the answer", func() bool { return slices.Equal(r.exposures(), []Exposure{Accepted}) })
			case "rejected":
				r.canary.Nack(first, "unknown field in a")
				xdstest.Eventually(t, "the answer", func() bool { return slices.Equal(r.exposures(), []Exposure{Rejected}) })
			}
			r.show(r.candidate("r2", nil, cluster("a", 2), cluster("b", 2), cluster("e", 1)))
			if answer == "none" {
				r.canary.Nack(first, "unknown field in a")
			}
			hasRemoved(t, r.canary.Recv(t), []string{"d"}, names...)
		})
	}
}

// TestCandidateIsShownAgain: a candidate with the same revision, as of a node that decides again after it has
// lost the key, is not sent again. The answer of the canary counts, whether it comes before or after that.
func TestCandidateIsShownAgain(t *testing.T) {
	for want, answers := range map[Exposure]func(*xdstest.Stream, *xdstest.Frame){
		Accepted: func(s *xdstest.Stream, f *xdstest.Frame) { s.Ack(f) },
		Rejected: func(s *xdstest.Stream, f *xdstest.Frame) { s.Nack(f, "bad") },
	} {
		for name, first := range map[string]bool{"answered": true, "not answered": false} {
			t.Run(fmt.Sprintf("%v, %s", want, name), func(t *testing.T) {
				r := newTrial(t, true)
				is := func() bool {
					all := r.srv.Canaries(r.group)
					return len(all) == 1 && all[0].Exposure == want
				}
				r.show(r.candidate("r1", nil, cluster("a", 2), cluster("d", 1)))
				f := r.canary.Recv(t)
				if first {
					answers(r.canary, f)
					xdstest.Eventually(t, "the answer", is)
				}
				r.show(r.candidate("r1", nil, cluster("a", 2), cluster("d", 1)))
				if !first {
					answers(r.canary, f)
				}
				r.canary.Quiet(t, short)
				if !is() {
					t.Errorf("%+v, expected %v", r.srv.Canaries(r.group), want)
				}
				if want == Accepted {
					r.serve("v2", cds, cluster("a", 1), cluster("b", 2), cluster("c", 1))
					has(t, r.canary.Recv(t), "b")
				}
			})
		}
	}
}

// TestCanarySeesOtherChanges: what the candidate does not replace reaches canaries as all other clients.
func TestCanarySeesOtherChanges(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		r := newTrial(t, delta)
		r.show(r.candidate("r1", nil, cluster("a", 2)))
		r.canary.Ack(r.canary.Recv(t))
		r.serve("v2", cds, cluster("a", 1), cluster("b", 2), cluster("c", 1))
		f := r.canary.Recv(t)
		isVersion(t, f, "b", 2)
		if delta {
			has(t, f, "b")
		} else {
			isVersion(t, has(t, f, "a", "b", "c"), "a", 2)
		}
		r.canary.Ack(f)
		r.other.Ack(r.other.Recv(t))
		r.canary.Quiet(t, short)
		if all := r.srv.Canaries(r.group); len(all) != 1 || all[0].ID != "canary" || all[0].Exposure != Accepted {
			t.Errorf("%+v", all)
		}
		if n := len(r.srv.Affected(r.group, r.candidate("r2", nil, cluster("a", 9)))); n != 2 {
			t.Errorf("%d clients are affected", n)
		}
	})
}

// TestCanaryOfNames: a client that subscribes by name is shown the names that it subscribes to, and one
// without any of them is not affected.
func TestCanaryOfNames(t *testing.T) {
	both(t, func(t *testing.T, delta bool) {
		w := newWorld(t)
		s := w.open(delta)
		s.Subscribe(rds, "r1", "r2")
		w.asked(rds, "r1", "r2")
		w.change(rds, nil, route("r1", "a"), route("r2", "a"))
		s.Ack(has(t, s.Recv(t), "r1", "r2"))
		g := w.cache.Groups()[0]
		table := g.Table(resource.TypeOf(rds))
		of := func(m proto.Message) *cache.Candidate {
			r := resources(t, m)[0]
			return cache.NewCandidate(fmt.Sprint(m), map[*cache.Table]*cache.View{table: table.NewView(map[string]cache.Replacement{r.Key: {Resource: r}}, cache.Stamp{})})
		}
		all := func(Canary) Arm { return CanaryArm }
		ignore := func(CanaryEvent) {}
		w.srv.Show(g, of(route("r2", "b")), all, ignore)
		s.Ack(has(t, s.Recv(t), "r2"))
		w.srv.Show(g, of(route("r3", "b")), all, ignore)
		s.Ack(has(t, s.Recv(t), "r2")) // the former content
		s.Quiet(t, short)
		if n := len(w.srv.Affected(g, of(route("r3", "b")))); n != 0 {
			t.Errorf("%d clients are affected", n)
		}
		if all := w.srv.Affected(g, of(route("r2", "b"))); len(all) != 1 || !slices.Equal(all[0].Types, []string{rds}) {
			t.Errorf("%+v are affected", all)
		}
		w.srv.Hide(g, false)
		s.Quiet(t, short)
	})
}

// isVersion fails the test unless the frame has a cluster as of the trial's version v.
func isVersion(t *testing.T, f *xdstest.Frame, name string, v int) {
	t.Helper()
	want := xdstest.Any(cluster(name, v))
	for _, r := range f.Resources {
		if r.Name != name {
			continue
		}
		if !proto.Equal(r.Body, want) {
			t.Fatalf("%s is not in version %d: %v", name, v, f)
		}
		return
	}
	t.Fatalf("no %s: %v", name, f)
}

// TestCanaryIsLostBetweenSteps: a client of an arm that disconnects while the next step of its candidate is being
// shown is lost nevertheless, so that it is not sent the candidate again.
func TestCanaryIsLostBetweenSteps(t *testing.T) {
	for arm, want := range map[string]Arm{"canary": CanaryArm, "control": ControlArm} {
		t.Run(arm, func(t *testing.T) {
			r := newTrial(t, true)
			var lost []CanaryEvent
			notify := func(e CanaryEvent) {
				r.mu.Lock()
				defer r.mu.Unlock()
				if e.Lost {
					lost = append(lost, e)
				}
			}
			candidate := r.candidate("r1", nil, cluster("a", 2))
			r.srv.Show(r.group, candidate, func(Canary) Arm { return want }, notify)
			if want == CanaryArm {
				for _, s := range []*xdstest.Stream{r.canary, r.other} {
					s.Ack(has(t, s.Recv(t), "a"))
				}
			}
			var first sync.Once
			r.srv.Show(r.group, candidate, func(of Canary) Arm {
				first.Do(func() { // the other stream disconnects before the step reaches it
					leaves := r.canary
					if of.ID == "canary" {
						leaves = r.other
					}
					leaves.Cancel()
					xdstest.Eventually(t, "a client to leave", func() bool { return r.srv.Count() == 1 })
				})
				return want
			}, notify)
			r.mu.Lock()
			defer r.mu.Unlock()
			if len(lost) != 1 || lost[0].Arm != want || lost[0].Revision != "r1" {
				t.Errorf("%+v, expected one lost client of the arm", lost)
			}
		})
	}
}
