package relay

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/balance"
	"xdsrelay/relay/events"
	"xdsrelay/shard"
)

// board is a tier as its nodes see it: all at once, unless it is frozen.
type board struct {
	mu sync.Mutex
	// Guarded by mu.
	members []shard.Member
	heard   time.Time // zero for now
}

// seat is one node's place at a board.
type seat struct {
	*board
	at int
}

func (s seat) Self() shard.Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members[s.at]
}

func (s seat) View() *shard.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shard.NewView(s.members)
}

func (s seat) Heard() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard.IsZero() {
		return time.Now()
	}
	return s.heard
}

func (s seat) announce(change func(*shard.Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard.IsZero() {
		change(&s.members[s.at].Status)
	}
}

func (s seat) Changed() <-chan struct{}    { return nil }
func (seat) Answered() bool                { return true }
func (s seat) Missing() []shard.Missing    { return nil }
func (s seat) Left(shard.Member) bool      { return false }
func (s seat) Enter()                      {}
func (s seat) Announce(shard.Status)       {}
func (s seat) Leave(context.Context) error { return nil }
func (s seat) Close()                      {}

// hall is a node with clients that can be counted.
type hall struct {
	mu sync.Mutex
	// Guarded by mu.
	clients, sent, most int
	why                 string
	next                *hall // where those who are sent away go
}

func (h *hall) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients
}

func (h *hall) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients += n
}

func (h *hall) shed(n, most int, _ string) int {
	n = min(n, most)
	h.add(-n)
	h.next.add(n)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent += n
	return n
}

func (h *hall) limit(most int, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.most, h.why = most, why
}

func (h *hall) reason() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.why
}

func (h *hall) state() (clients, sent, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients, h.sent, h.most
}

// play runs two nodes with clients in virtual time.
func play(t *testing.T, clients [2]int, change func(*balancer), f func(b *board, halls [2]*hall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &board{members: []shard.Member{{Name: "a"}, {Name: "b"}}}
		halls := [2]*hall{{clients: clients[0]}, {clients: clients[1]}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for i, h := range halls {
			h.next = halls[1-i]
			one := &balancer{
				members: seat{b, i}, announce: seat{b, i}.announce, enabled: true, lease: 10 * time.Second, log: slog.New(slog.DiscardHandler),
				limits: balance.Limits{Headroom: 10, Refuse: 50, Shed: 10},
				count:  h.count, shed: h.shed, limit: h.limit, endOld: func() {}, others: func(bool) {},
			}
			change(one)
			running.Go(func() { one.run(ctx) })
		}
		f(b, halls)
		cancel()
		running.Wait()
		for _, h := range halls {
			if _, _, most := h.state(); most != 0 {
				t.Error("a limit is left at the end")
			}
		}
	})
}

func asIs(*balancer) {}

// TestBalance: a node with more clients than its share sends them away slowly, once it
// knows that the others are there to stay, and stops at what it keeps.
func TestBalance(t *testing.T) {
	recorded := events.New(nil)
	record := func(b *balancer) { b.log = slog.New(recorded.Handler(slog.DiscardHandler)) }
	play(t, [2]int{1000, 0}, record, func(_ *board, halls [2]*hall) {
		time.Sleep(20 * time.Second) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent > 0 || most > 0 {
			t.Fatalf("%d are sent away, and %d taken, before two leases", sent, most)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		clients, sent, most := halls[0].state()
		if sent < 20 || sent > 60 {
			t.Errorf("in the first minute %d of a surplus of 450 are sent away", sent)
		}
		if why := halls[0].reason(); most < 740 || most > 750 || !strings.Contains(why, "on 2 nodes: reconnect to another node") {
			t.Errorf("with %d clients the limit is %d: %q", clients, most, why)
		}
		time.Sleep(2 * time.Hour) //nolint:forbidigo // virtual time
		if clients, _, _ := halls[0].state(); clients != 550 {
			t.Errorf("%d are left", clients)
		}
		if _, sent, _ := halls[1].state(); sent > 0 {
			t.Errorf("the other sends %d away", sent)
		}
		if all := recorded.After(nil, time.Time{})[0].Events; len(all) != 1 || all[0].Kind != events.ClientsRebalanced {
			t.Errorf("the events are %+v", all)
		}
	})
}

// TestBalanceOff: where it is turned off, nobody is sent away or refused, and the
// others are told all the same.
func TestBalanceOff(t *testing.T) {
	play(t, [2]int{1000, 0}, func(b *balancer) { b.enabled = false }, func(b *board, halls [2]*hall) {
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent > 0 || most > 0 {
			t.Errorf("%d are sent away, and %d taken", sent, most)
		}
		if got := (seat{b, 0}).Self().Clients; got != 1000 {
			t.Errorf("%d are announced", got)
		}
	})
}

// TestBalanceUnheard: a node that does not know how the others are now keeps its
// clients and takes all who come.
func TestBalanceUnheard(t *testing.T) {
	play(t, [2]int{1000, 0}, asIs, func(b *board, halls [2]*hall) {
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		b.mu.Lock()
		b.heard = time.Now()
		b.mu.Unlock()
		time.Sleep(11 * time.Second) //nolint:forbidigo // virtual time
		_, before, _ := halls[0].state()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent != before || most != 0 {
			t.Errorf("%d are sent away, and %d taken", sent-before, most)
		}
		b.mu.Lock()
		b.heard = time.Time{}
		b.mu.Unlock()
		// Two leases from its last look before on, which is up to 1.5 s ago.
		time.Sleep(18 * time.Second) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent != before || most != 0 {
			t.Errorf("%d are sent away, and %d taken, as soon as something is heard", sent-before, most)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent == before || most == 0 {
			t.Errorf("%d are sent away, and %d taken, after that", sent-before, most)
		}
	})
}

// TestBalanceDraining: nobody is sent to a node that ends, nor refused on its account.
func TestBalanceDraining(t *testing.T) {
	play(t, [2]int{1000, 0}, asIs, func(b *board, halls [2]*hall) {
		time.Sleep(time.Minute) //nolint:forbidigo // virtual time
		seat{b, 1}.announce(func(s *shard.Status) { s.Draining = true })
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		_, before, _ := halls[0].state()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		if _, sent, most := halls[0].state(); sent != before || most != 0 {
			t.Errorf("%d are sent away, and %d taken", sent-before, most)
		}
	})
}

// TestBalanceTells: a large change is announced at once, a small one soon, and none not
// at all.
func TestBalanceTells(t *testing.T) {
	var mu sync.Mutex
	said := 0
	counting := func(b *balancer) {
		announce := b.announce
		b.announce = func(change func(*shard.Status)) {
			mu.Lock()
			said++
			mu.Unlock()
			announce(change)
		}
	}
	play(t, [2]int{500, 500}, counting, func(b *board, halls [2]*hall) {
		is := func() int { return seat{b, 0}.Self().Clients }
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		if is() != 500 {
			t.Errorf("%d at the beginning", is())
		}
		halls[0].add(20)
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		if is() != 520 {
			t.Errorf("%d after a large change", is())
		}
		halls[0].add(1)
		time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time
		if is() != 520 {
			t.Errorf("%d right after a small change", is())
		}
		time.Sleep(tellPause) //nolint:forbidigo // virtual time
		if is() != 521 {
			t.Errorf("%d some time after a small change", is())
		}
		mu.Lock()
		before := said
		mu.Unlock()
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		mu.Lock()
		defer mu.Unlock()
		if said != before {
			t.Errorf("%d announcements without a change", said-before)
		}
	})
}
