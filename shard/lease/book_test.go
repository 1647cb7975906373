package lease

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"xdsrelay/shard"
)

// TestBook: a member that renews its lease whenever Redis answers is never dropped, whatever Redis
// loses; one that died is dropped at the latest two leases after Redis failed, or its clock jumped.
func TestBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const term = 9 * time.Second
		const every = term / 3
		b := &book{lease: term, known: make(map[string]entry)}
		now := time.Unix(1000, 0)
		redis := map[string]time.Time{} // when leases end
		alive := map[string]bool{"b": true, "c": true}
		died := map[string]time.Time{}
		var upset time.Time // when Redis last failed, or its clock jumped
		seen := map[string]bool{}
		read := func() {
			var all []found
			for _, name := range []string{"b", "c"} {
				end, ok := redis[name]
				if ok && !end.After(now) { // this and the next line do what the script does
					delete(redis, name)
				} else if ok {
					end = earlier(end, now.Add(term))
					redis[name] = end
					all = append(all, found{member: shard.Member{Name: name, Peer: name}, lease: end.Sub(now)})
				}
			}
			b.read(now, all)
			for name := range alive {
				_, ok := b.known[name]
				if seen[name] && !ok {
					t.Fatalf("%s is alive and no longer in the book", name)
				}
				seen[name] = ok
			}
			for name, at := range died {
				last := at
				if upset.After(last) {
					last = upset
				}
				if _, ok := b.known[name]; ok && now.Sub(last) > 2*term+every {
					t.Fatalf("%s died %v ago, %v after Redis failed, and is in the book", name, now.Sub(at), now.Sub(upset))
				}
			}
		}
		renew := func() { // all members renew, in some order
			now = now.Add(every)
			first := rapid.Bool().Draw(t, "first")
			if first {
				read()
			}
			for name := range alive {
				redis[name] = now.Add(term)
			}
			if !first {
				read()
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"renew", "outage", "flush", "jump", "die"}).Draw(t, "step") {
			case "outage":
				for range rapid.IntRange(1, 20).Draw(t, "tries") {
					now = now.Add(every)
					b.failed()
				}
				upset = now
				read()
			case "flush":
				clear(redis)
			case "jump": // of the clock of Redis, forward or backward
				by := time.Duration(rapid.IntRange(-1000, 1000).Draw(t, "by")) * time.Second
				upset = now
				for name, end := range redis {
					redis[name] = end.Add(by)
				}
			case "die":
				name := rapid.SampledFrom([]string{"b", "c"}).Draw(t, "who")
				if alive[name] {
					delete(alive, name)
					died[name] = now
				}
			}
			// A fault every few seconds is more than the book can tolerate.
			for range 3 {
				renew()
			}
		}
	})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// TestBookWithoutRedis: while Redis does not answer, next returns no time to wait for: such a time
// would pass again and again, and Redis would be asked without a pause.
func TestBookWithoutRedis(t *testing.T) {
	b := &book{lease: time.Minute, known: make(map[string]entry)}
	now := time.Now()
	b.read(now, []found{{member: shard.Member{Name: "b"}, lease: time.Minute}})
	if end := b.next(); !end.Equal(now.Add(time.Minute)) {
		t.Errorf("the first lease ends %v", end)
	}
	b.read(now, []found{{member: shard.Member{Name: "b"}, lease: time.Hour}})
	if end := b.next(); !end.Equal(now.Add(time.Minute)) {
		t.Errorf("a lease that is longer than any ends %v", end)
	}
	b.failed()
	if end := b.next(); !end.IsZero() {
		t.Errorf("the first lease ends %v, and Redis is away", end)
	}
	b.read(now.Add(2*time.Minute), nil)
	if end := b.next(); !end.Equal(now.Add(3 * time.Minute)) {
		t.Errorf("the first lease ends %v, after Redis is back", end)
	}
}

// TestBookLeft: a member that has left is dropped at once. If an earlier member with its name left,
// that does not affect it, and one that joins with its name is another member.
func TestBookLeft(t *testing.T) {
	b := &book{lease: time.Minute, known: make(map[string]entry)}
	now := time.Now()
	here := func(incarnation string) found {
		return found{member: shard.Member{Name: "b", Incarnation: incarnation}, lease: time.Minute}
	}
	gone := func(incarnation string) found {
		return found{member: shard.Member{Name: "b", Incarnation: incarnation}, left: true, lease: time.Minute}
	}
	for i, step := range []struct {
		read       []found
		came, left int
	}{
		{[]found{here("1")}, 1, 0},
		{[]found{here("1")}, 0, 0},
		{[]found{here("2")}, 1, 0},
		{nil, 0, 0},
		{[]found{gone("1")}, 0, 0}, // like in a Redis that was reset to an old state
		{[]found{gone("2")}, 0, 1},
		{[]found{gone("2")}, 0, 0},
		{nil, 0, 0},
	} {
		now = now.Add(time.Second)
		if came, left, ended := b.read(now, step.read); len(came) != step.came || len(left) != step.left || len(ended) > 0 {
			t.Errorf("step %d: %v came, %v left, the leases of %v ended", i, came, left, ended)
		}
	}
	if len(b.members()) != 0 || !b.next().IsZero() {
		t.Errorf("the book has %v", b.members())
	}
}
