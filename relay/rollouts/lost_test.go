package rollouts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
)

// TestLost: clients that the revision crashes are quarantined, so each crashes once.
func TestLost(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.fleet.become(crashes, everybody)
		s.sends("shop", "a=2")
		sleep(time.Minute)
		is := s.is("shop", "Held")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "lost: fail, all 2 canaries were lost") {
			t.Errorf("held: %+v", is)
		}
		for _, c := range s.fleet.clients {
			if len(c.got) > 1 {
				t.Errorf("%s got %q", c.ID, c.got)
			}
			if named := slices.ContainsFunc(is.Lost, func(u Unwell) bool { return u.Client == c.ID }); named != (len(c.got) > 0) {
				t.Errorf("of %s, which got %q, the status says %+v", c.ID, c.got, is.Lost)
			}
		}
	})
}

// TestLostOneByOne: losses count across canaries that replace others: a revision that crashes each client
// does not get the whole fleet, one after the other.
func TestLostOneByOne(t *testing.T) {
	bubble(t, func(s *stage) {
		for _, c := range s.fleet.clients {
			c.version = "v1" // so there is one scout
		}
		s.begins("shop")
		s.fleet.become(crashes, everybody)
		s.sends("shop", "a=2")
		sleep(5 * time.Minute)
		is := s.is("shop", "Held")
		if with := s.fleet.with(is.Revision); len(with) > 2 {
			t.Errorf("%q were lost one after the other", with)
		}
	})
}

// TestLostIsWritten: who was lost is in the records, so a restart does not give it the revision again.
func TestLostIsWritten(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		i := slices.IndexFunc(s.fleet.clients, func(c *client) bool { return len(c.got) > 0 })
		lost := s.fleet.clients[i]
		s.fleet.disconnect(lost, true)
		sleep(2 * time.Second)
		s.is("shop", "Stepping Bake")
		s.restart(func() {
			s.fleet.connect(lost)
			s.sends("shop", "a=1") // stands for the restored configuration
			s.sends("shop", "a=2")
		})
		sleep(10 * time.Second)
		if again := s.is("shop", "Stepping Bake"); again.Revision != is.Revision || again.Canaries != is.Canaries {
			t.Errorf("after the restart: %+v", again)
		}
		if len(lost.got) > 1 {
			t.Errorf("it was lost, and got %q", lost.got)
		}
	})
}

// TestReconnected: a canary that reconnects, and of which nothing is known yet, is asked for while its
// stream is free to notify.
func TestReconnected(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		s.is("shop", "Stepping Bake")
		i := slices.IndexFunc(s.fleet.clients, func(c *client) bool { return len(c.got) > 0 })
		c := s.fleet.clients[i]
		s.fleet.disconnect(c, false)
		s.control.mu.Lock()
		arms := s.control.keys[s.group("shop")].arms
		delete(arms.accepted, arms.hash(c.Canary))
		s.control.mu.Unlock()
		c.habit = ignores
		s.fleet.connect(c)
		s.fleet.mu.Lock()
		c.exposure = fanout.NotExposed // it has not subscribed yet
		s.fleet.mu.Unlock()
		asked := make(chan bool, 1)
		s.control.mu.Lock()
		s.control.cfg.Clients = &nosy{s.fleet, func() {
			free := arms.mu.TryLock()
			if free {
				arms.mu.Unlock()
			}
			select {
			case asked <- free:
			default:
			}
		}}
		s.control.mu.Unlock()
		if free := <-asked; !free {
			t.Error("clients are asked while the arms are locked, which a stream waits for that notifies")
		}
	})
}

// nosy is a fleet with a look at each call of Affected.
type nosy struct {
	*fleet

	look func()
}

func (n *nosy) Affected(g *cache.Group, c *cache.Candidate) []fanout.Affected {
	n.look()
	return n.fleet.Affected(g, c)
}

// TestCanariesLeave: when all canaries have left on their own, others take their place.
func TestCanariesLeave(t *testing.T) {
	bubble(t, func(s *stage) {
		s.begins("shop")
		s.sends("shop", "a=2")
		sleep(time.Second)
		is := s.is("shop", "Stepping Bake")
		with := s.fleet.with(is.Revision)
		for _, c := range s.fleet.clients {
			if slices.Contains(with, c.ID) {
				s.fleet.disconnect(c, false)
			}
		}
		sleep(2 * time.Second)
		if n := len(s.fleet.with(is.Revision)); n != 10 {
			t.Errorf("%d clients were canaries", n)
		}
		if !slices.Contains(s.did("shop"), "refilled") {
			t.Errorf("decisions: %q", s.did("shop"))
		}
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
	})
}

// TestOnlyClientIsLost: a revision that crashes the only client is held, and its tokens are free for other
// keys. The next revision gets to that client.
func TestOnlyClientIsLost(t *testing.T) {
	bubble(t, func(s *stage) {
		for _, c := range s.fleet.clients[1:] {
			s.fleet.disconnect(c, true)
		}
		s.begins("shop")
		s.fleet.become(crashes, everybody)
		s.sends("shop", "a=2")
		sleep(time.Minute)
		is := s.is("shop", "Held")
		if !strings.Contains(strings.Join(is.Findings, "\n"), "lost: fail, all clients that could get it were lost with it: 1") {
			t.Errorf("held: %+v", is)
		}
		s.fleet.become(accepts, everybody)
		s.sends("shop", "a=3")
		sleep(10 * time.Minute)
		s.is("shop", "Idle")
	})
}
