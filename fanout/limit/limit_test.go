package limit

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLimiter(t interface{ Fatal(...any) }, v Values) *Limiter {
	l, err := New(v, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func isRefusal(err error, n Name) bool {
	r, ok := errors.AsType[*Refusal](err)
	return ok && r.Limit == n && status.Code(err) == codes.ResourceExhausted
}

func TestSourceOf(t *testing.T) {
	tcp := func(s string) Source { return SourceAt(s) }
	if tcp("192.0.2.1:1") != tcp("192.0.2.1:2") || tcp("192.0.2.1:1") == tcp("192.0.2.2:1") {
		t.Error("sources are not IPv4 addresses")
	}
	if tcp("[::ffff:192.0.2.1]:1") != tcp("192.0.2.1:2") {
		t.Error("an IPv4 address in an IPv6 one is another source")
	}
	if tcp("[2001:db8::1]:1") != tcp("[2001:db8::2]:1") || tcp("[2001:db8::1]:1") == tcp("[2001:db8:0:1::1]:1") {
		t.Error("sources are not IPv6 networks of 64 bits")
	}
	if tcp("[fe80::1%eth0]:1") != tcp("[fe80::2]:1") {
		t.Error("a zone makes another source")
	}
	if s := SourceOf(&net.UnixAddr{Name: "@", Net: "unix"}); s != (Source{}) || SourceOf(nil) != (Source{}) {
		t.Errorf("a local socket is from %v", s)
	}
}

// No more is booked than the limits allow, in any order of clients; no client is refused while
// there is room; and nothing is left once all clients have disconnected.
func TestBooking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) { testBooking(rt) })
	})
}

// member is a stream in the model.
type member struct {
	reservation Reservation
	source      Source
	identity    string
	key         string
}

func testBooking(t *rapid.T) {
	most := func(name string) int { return rapid.IntRange(0, 4).Draw(t, name) }
	v := Values{
		Streams: most("streams"), StreamsPerSource: most("per source"), StreamsPerIdentity: most("per identity"),
		KeysPerIdentity: most("keys"), Linger: time.Minute,
	}
	l := newLimiter(t, v)
	var open []member
	left := map[string]time.Time{} // owner and key → when its last stream ended
	count := func(of func(member) bool) (n int) {
		for _, m := range open {
			if of(m) {
				n++
			}
		}
		return n
	}
	ownerOf := func(m member) string {
		if m.identity != "" {
			return m.identity
		}
		return m.source.String()
	}
	keysOf := func(o string) map[string]bool {
		keys := map[string]bool{}
		for _, m := range open {
			if m.key != "" && ownerOf(m) == o {
				keys[m.key] = true
			}
		}
		for k, at := range left {
			if of, key, _ := strings.Cut(k, " "); of == o && time.Since(at) < v.Linger {
				keys[key] = true
			}
		}
		return keys
	}
	room := func(have, most int) bool { return most == 0 || have < most }
	t.Repeat(map[string]func(*rapid.T){
		"open": func(t *rapid.T) {
			m := member{
				source:   SourceAt(fmt.Sprintf("192.0.2.%d:1", rapid.IntRange(1, 3).Draw(t, "source"))),
				identity: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "identity"),
			}
			want := room(len(open), v.Streams) && room(count(func(o member) bool { return o.source == m.source }), v.StreamsPerSource) &&
				(m.identity == "" || room(count(func(o member) bool { return o.identity == m.identity }), v.StreamsPerIdentity))
			var err error
			if m.reservation, err = l.Enter(m.source, m.identity); (err == nil) != want {
				t.Fatalf("a stream of %v %q got %v, want room: %t; %d are open", m.source, m.identity, err, want, len(open))
			}
			if err != nil {
				return
			}
			key := fmt.Sprint("k", rapid.IntRange(0, 5).Draw(t, "key"))
			keys := keysOf(ownerOf(m))
			full := rapid.IntRange(0, 9).Draw(t, "full") == 0
			want = !full && (keys[key] || room(len(keys), v.KeysPerIdentity))
			if err = l.Use(m.reservation, "client", key, func(int) bool { return !full }); (err == nil) != want {
				t.Fatalf("the key %s of %s got %v, want room: %t; it has %v, and the node is full: %t", key, ownerOf(m), err, want, keys, full)
			}
			if err != nil {
				l.Leave(m.reservation, "")
				return
			}
			m.key = key
			delete(left, ownerOf(m)+" "+key)
			open = append(open, m)
		},
		"close": func(t *rapid.T) {
			if len(open) == 0 {
				t.Skip()
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			m := open[i]
			open = append(open[:i:i], open[i+1:]...)
			l.Leave(m.reservation, m.key)
			if count(func(o member) bool { return o.key == m.key && ownerOf(o) == ownerOf(m) }) == 0 {
				left[ownerOf(m)+" "+m.key] = time.Now()
			}
		},
		"wait": func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second) }, //nolint:forbidigo // virtual time
	})
	for _, m := range open {
		l.Leave(m.reservation, m.key)
	}
	time.Sleep(v.Linger) //nolint:forbidigo // virtual time
	l.expireKeys(time.Now())
	if l.streams != 0 || len(l.accounts) != 0 || len(l.lingering) != 0 {
		t.Fatalf("when all have gone there are %d streams, %d accounts and %d keys", l.streams, len(l.accounts), len(l.lingering))
	}
}

// A stream gets no more than its rate and burst in any time, and waits no longer than that takes.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.IntRange(1, 1000).Draw(t, "rate"), rapid.IntRange(1, 1000).Draw(t, "burst")
		var b Tokens
		now := time.Unix(1_000_000, 0)
		start, taken := now, 0
		for range rapid.IntRange(1, 200).Draw(t, "requests") {
			n := rapid.IntRange(1, 3).Draw(t, "cost")
			elapsed := now.Sub(start).Seconds()
			// The last request may exceed it, since the size is known only after reading.
			if float64(taken) > float64(burst)+float64(rate)*elapsed+3 {
				t.Fatalf("%d were taken in %.3f s, at a rate of %d after %d", taken, elapsed, rate, burst)
			}
			taken += n
			wait := b.Take(now, n, rate, burst)
			if most := time.Duration(float64(n) / float64(rate) * float64(time.Second)); wait > most+time.Millisecond {
				t.Fatalf("a wait of %v for %d at a rate of %d", wait, n, rate)
			}
			now = now.Add(wait + time.Duration(rapid.IntRange(0, 10).Draw(t, "pause"))*time.Millisecond)
		}
	})
	var b Tokens
	if b.Take(time.Now(), 1000, 0, 1) != 0 {
		t.Error("a rate of 0 has a limit")
	}
}

// A stream counts as starting until it is in sync, has exited, or is so old that it waits for
// something else.
func TestArrivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, Values{})
		want := func(starting int, finished uint64) {
			t.Helper()
			if n, f := l.arrivals.starting(time.Now(), 10*time.Second); n != starting || f != finished {
				t.Errorf("%d streams are starting and %d in sync, want %d and %d", n, f, starting, finished)
			}
		}
		first := l.StreamStarted()
		time.Sleep(5 * time.Second) //nolint:forbidigo // virtual time
		second, third := l.StreamStarted(), l.StreamStarted()
		want(3, 0)
		l.InSync(second)
		l.StreamEnded(third)
		l.StreamEnded(0)
		want(1, 1)
		time.Sleep(6 * time.Second) //nolint:forbidigo // virtual time
		want(0, 1)
		l.InSync(first) // late
		want(0, 2)
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		l.StreamStarted()
		want(1, 2)
	})
}

// A client that is refused because of the node should try another node; another client would be
// refused there, too.
func TestElsewhere(t *testing.T) {
	l := newLimiter(t, Values{Streams: 1, StreamsPerSource: 1})
	s := SourceAt("192.0.2.1:1")
	if _, err := l.Enter(s, ""); err != nil {
		t.Fatal(err)
	}
	_, err := l.Enter(s, "")
	if !isRefusal(err, Streams) || !Elsewhere(err) {
		t.Errorf("the node is full: %v", err)
	}
	l.Set(Values{StreamsPerSource: 1})
	_, err = l.Enter(s, "")
	if !isRefusal(err, StreamsPerSource) || Elsewhere(err) {
		t.Errorf("the source is full: %v", err)
	}
	if want := "2 streams from 192.0.2.1: the limit is 1 (limits.max_streams_per_source)"; err == nil || err.Error() != want {
		t.Errorf("told %q, want %q", err, want)
	}
}

// The log has a line now and then, however many clients are refused, with the number of suppressed
// lines.
func TestLines(t *testing.T) {
	var l Lines
	now := time.Unix(1000, 0)
	lines := 0
	for range 1000 {
		if _, ok := l.Next(now, time.Minute); ok {
			lines++
		}
	}
	if more, ok := l.Next(now.Add(time.Minute), time.Minute); lines != 1 || more != 999 || !ok {
		t.Errorf("%d lines, then one more: %t, after %d", lines, ok, more)
	}
}
