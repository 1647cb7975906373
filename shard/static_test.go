package shard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/shard"
)

// answers are the statuses of the other nodes of a list.
type answers struct {
	mu sync.Mutex
	by map[string]shard.Status // guarded by mu: of those that answer
}

func (a *answers) set(name string, s shard.Status) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.by[name] = s
}

func (a *answers) silence(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, name)
}

func (a *answers) probe(ctx context.Context, m shard.Member) (shard.Status, error) {
	a.mu.Lock()
	s, ok := a.by[m.Name]
	a.mu.Unlock()
	if !ok {
		<-ctx.Done() // like a stopped process
		return s, ctx.Err()
	}
	return s, nil
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func names(v *shard.View) (all []string) {
	for _, m := range v.Members() {
		all = append(all, m.Name)
	}
	return all
}

func wantNames(t *testing.T, v *shard.View, want ...string) {
	t.Helper()
	got := names(v)
	if len(got) != len(want) {
		t.Fatalf("members %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("members %v, expected %v", got, want)
		}
	}
}

// TestStatic: a node that does not answer for a lease is removed, and is back with its first
// answer; the statuses of the others count; a node always has itself in its view.
func TestStatic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		a := &answers{by: map[string]shard.Status{"b": {}, "c": {}}}
		s, err := shard.NewStatic(shard.StaticConfig{
			Self:   shard.Member{Name: "a", Peer: "a:1"},
			Others: []shard.Member{{Name: "b", Peer: "b:1"}, {Name: "c", Peer: "c:1"}},
			Lease:  lease, Probe: a.probe, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		wantNames(t, s.View(), "a", "b", "c")
		pass(lease)
		wantNames(t, s.View(), "a", "b", "c")
		changed := s.Changed()

		a.silence("c")
		pass(lease / 2)
		wantNames(t, s.View(), "a", "b", "c")
		pass(lease)
		wantNames(t, s.View(), "a", "b")
		select {
		case <-changed:
		default:
			t.Error("the change was not told")
		}

		a.set("c", shard.Status{Cut: true, Clients: 5})
		a.silence("b")
		pass(lease * 3 / 2)
		wantNames(t, s.View(), "a", "c")
		if m := s.View().Members()[1]; !m.Cut || m.Clients != 5 || m.Peer != "c:1" {
			t.Errorf("got %+v", m)
		}
		a.silence("c")
		heard := s.Heard()
		pass(10 * lease)
		wantNames(t, s.View(), "a")
		if since := s.Heard().Sub(heard); since > lease/2 {
			t.Errorf("nobody answers, and the view was true %v later", since)
		}
		all := s.Missing()
		if len(all) != 2 || all[0].Member.Name != "b" || all[1].Member.Name != "c" || all[1].Err == nil || all[1].Heard.Sub(heard).Abs() > lease/2 || !all[0].Heard.Before(all[1].Heard) {
			t.Errorf("missing are %+v, expected b and then c, since they went", all)
		}
	})
}

// TestStaticLeave: a node that leaves announces it, whatever it announces later, and waits until
// the others have had the time to ask, in the time that a node has for that, with any lease.
func TestStaticLeave(t *testing.T) {
	for _, lease := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute} {
		t.Run(lease.String(), func(t *testing.T) { staticLeave(t, lease) })
	}
}

func staticLeave(t *testing.T, lease time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var left, right *shard.Static
		both := make(chan struct{})
		ask := func(of **shard.Static) func(context.Context, shard.Member) (shard.Status, error) {
			return func(context.Context, shard.Member) (shard.Status, error) {
				<-both
				return (*of).Self().Status, nil
			}
		}
		join := func(self, other string, of **shard.Static) *shard.Static {
			s, err := shard.NewStatic(shard.StaticConfig{
				Self: shard.Member{Name: self}, Others: []shard.Member{{Name: other}},
				Lease: lease, Probe: ask(of), Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		left = join("l", "r", &right)
		right = join("r", "l", &left)
		close(both)
		defer left.Close()
		defer right.Close()
		pass(lease)
		var keys []string // of the node that leaves
		for i := range 100 {
			if owner, _ := left.View().Owner(fmt.Sprint(i)); owner.Name == "l" {
				keys = append(keys, fmt.Sprint(i))
			}
		}
		within, done := context.WithTimeout(t.Context(), shard.LeaveTime)
		defer done()
		if err := left.Leave(within); err != nil {
			t.Fatal(err)
		}
		left.Announce(shard.Status{Clients: 3})
		for _, v := range []*shard.View{left.View(), right.View()} {
			for _, key := range keys {
				if owner, ok := v.Owner(key); owner.Name != "r" || !ok {
					t.Errorf("%q owns, expected %q", owner.Name, "r")
				}
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := right.Leave(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("left with a context that is over: %v", err)
		}
	})
}

// TestStaticLog: a node that drained before it stopped answering has left; one that did not is
// logged as disappeared.
func TestStaticLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 10 * time.Second
		a := &answers{by: map[string]shard.Status{"drains": {Draining: true}, "dies": {}}}
		var log bytes.Buffer // one probe writes at a time: the list has a lock
		s, err := shard.NewStatic(shard.StaticConfig{
			Self:   shard.Member{Name: "a", Peer: "a:1"},
			Others: []shard.Member{{Name: "dies", Peer: "b:1"}, {Name: "drains", Peer: "c:1"}},
			Lease:  lease, Probe: a.probe, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(lease)
		a.silence("drains")
		a.silence("dies")
		pass(2 * lease)
		wantNames(t, s.View(), "a")
		s.Close()
		for line := range strings.Lines(log.String()) {
			if dies := strings.Contains(line, "member=dies"); dies != strings.Contains(line, "level=WARN") {
				t.Errorf("logged %s", line)
			}
		}
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("logged %d lines, expected one for each node:\n%s", n, &log)
		}
	})
}
