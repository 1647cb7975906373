package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"xdsrelay/relay/aggregation"
)

// TestTerms: what the origin asks for is told to the clients of now and of
// later, once; a refusal is told likewise, and taken back by new terms.
func TestTerms(t *testing.T) {
	r := newRig(t, Config{})
	defer r.Close()
	told := 0
	c := r.Join("k", &corev3.Node{Id: "n"}, func() { told++ })
	defer c.Leave()
	o := <-r.outlets
	if o.Key() != "k" || o.Node().GetId() != "n" {
		t.Fatalf("key %q, node %v", o.Key(), o.Node())
	}
	see := func(c *Client, wantTold int) *Terms {
		t.Helper()
		terms, err := c.Terms()
		if err != nil || told != wantTold {
			t.Fatalf("terms %v, error %v, told %d times, expected %d", terms, err, told, wantTold)
		}
		return terms
	}
	if see(c, 0) != nil {
		t.Fatal("terms before the origin has said any")
	}
	first := mustAsk(t, o.Outlet, asking(10*time.Second, "a", "b"))
	later := r.join("k")
	defer later.Leave()
	if see(c, 1) != first || see(later, 1) != first {
		t.Fatal("not all have the terms")
	}
	if mustAsk(t, o.Outlet, asking(10*time.Second, "a", "b")) != first || see(c, 1) != first {
		t.Fatal("equal terms are passed on again")
	}
	if second := mustAsk(t, o.Outlet, asking(20*time.Second, "a", "b")); see(c, 2) != second || see(later, 2) != second {
		t.Fatal("not all have the new terms")
	}
	no := errors.New("no")
	o.Refuse(no)
	if terms, err := later.Terms(); terms != nil || !errors.Is(err, no) || told != 3 {
		t.Fatalf("refused: terms %v, error %v, told %d times", terms, err, told)
	}
	if _, err := r.join("k").Terms(); !errors.Is(err, no) {
		t.Fatalf("a later client: %v", err)
	}
	if c.Report(of("a", zone("z", 1, 1))); len(taken(o.Outlet)) != 0 {
		t.Fatal("something is added up that nobody wants")
	}
	mustAsk(t, o.Outlet, asking(20*time.Second, "a", "b"))
	if see(c, 4) == nil {
		t.Fatal("no terms after a refusal was taken back")
	}
}

// TestTermsAreChecked: an interval that clients cannot keep is made longer; one
// that means nothing is an error, and changes nothing.
func TestTermsAreChecked(t *testing.T) {
	r := newRig(t, Config{})
	defer r.Close()
	c := r.join("k")
	defer c.Leave()
	o := <-r.outlets
	for _, rsp := range []*lrsv3.LoadStatsResponse{
		{}, {LoadReportingInterval: &durationpb.Duration{Seconds: 1, Nanos: -1}}, {LoadReportingInterval: &durationpb.Duration{Seconds: 1 << 60}},
	} {
		if _, err := o.Ask(rsp); err == nil || !strings.Contains(err.Error(), "load_reporting_interval") {
			t.Errorf("%v: error %v", rsp, err)
		}
	}
	if terms, _ := c.Terms(); terms != nil {
		t.Fatalf("terms %v", terms)
	}
	for _, d := range []time.Duration{-time.Hour, 0, time.Nanosecond, 99 * time.Millisecond, 100 * time.Millisecond, time.Minute} {
		rsp := asking(d, "a")
		rsp.ProtoReflect().SetUnknown([]byte{0x98, 0x06, 0x01}) // field 99
		terms := mustAsk(t, o.Outlet, rsp)
		want := max(d, 100*time.Millisecond)
		if got := terms.Response.GetLoadReportingInterval().AsDuration(); terms.Interval != want || got != want {
			t.Errorf("%v becomes %v, and %v for the clients", d, terms.Interval, got)
		}
		if len(terms.Response.ProtoReflect().GetUnknown()) != 3 {
			t.Error("a field that is not known yet is lost")
		}
		if rsp.GetLoadReportingInterval().AsDuration() != d {
			t.Error("the response was changed")
		}
	}
}

// TestLinger: K10: an account is reported from its first client on until some
// time after its last; a client that returns meanwhile changes nothing, and one
// that returns while the last report ends has to wait for that, so that there is
// never a second stream.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{Linger: time.Minute})
		defer r.Close()
		start := func() running {
			t.Helper()
			synctest.Wait()
			if len(r.outlets) != 1 {
				t.Fatalf("%d reports start, expected one", len(r.outlets))
			}
			return <-r.outlets
		}
		rest := func(d time.Duration, o running, ended bool) {
			t.Helper()
			time.Sleep(d) //nolint:forbidigo // virtual time
			synctest.Wait()
			if (o.ctx.Err() != nil) != ended || len(r.outlets) != 0 {
				t.Fatalf("after %v: ended %v, %d new reports", d, o.ctx.Err() != nil, len(r.outlets))
			}
		}
		a, b := r.join("k"), r.join("k")
		o := start()
		a.Leave()
		rest(time.Hour, o, false)
		b.Report(of("c", zone("z", 5, 1)))
		b.Leave()
		rest(59*time.Second, o, false)
		c := r.join("k")
		rest(time.Hour, o, false)
		if got := taken(o.Outlet); len(got) != 1 || got[0].GetUpstreamLocalityStats()[0].GetTotalIssuedRequests() != 5 {
			t.Fatalf("what a client has reported went with it: %v", got)
		}
		c.Leave()
		rest(time.Minute, o, true)
		if cause := context.Cause(o.ctx); !errors.Is(cause, errIdle) {
			t.Fatalf("ended by %v", cause)
		}
		d := r.join("k") // while the last report says its last words
		rest(time.Hour, o, true)
		close(o.done)
		o = start()
		d.Leave()
		rest(time.Minute, o, true)
		close(o.done)
		synctest.Wait()
		if len(r.accounts) != 0 {
			t.Fatal("the account is still there")
		}
	})
}

// TestClose: closing ends reports, and waits for them.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		c, d := r.join("k"), r.join("l")
		d.Leave()
		o := <-r.outlets
		r.Close()
		if cause := context.Cause(o.ctx); !errors.Is(cause, errClosed) {
			t.Fatalf("ended by %v", cause)
		}
		c.Leave()
		late := r.join("m")
		late.Leave()
		synctest.Wait()
	})
}

// TestBound: what an account holds is bounded: what is new beyond that is left
// out and counted, what is known goes on, and there is room again once the sums
// were taken.
func TestBound(t *testing.T) {
	const bound = 20_000
	r := newRig(t, Config{MaxBytes: bound})
	defer r.Close()
	greedy, modest := r.join("k"), r.join("k")
	o := <-r.outlets
	mustAsk(t, o.Outlet, everything(time.Second))
	modest.Report(of("known", zone("z", 1, 1)))
	var many []*endpointv3.ClusterStats
	for i := range 1000 {
		l := zone("z", 1, 1)
		l.LoadMetricStats = []*endpointv3.EndpointLoadMetricStats{{MetricName: strings.Repeat("m", 100), TotalMetricValue: 1}}
		l.UpstreamEndpointStats = []*endpointv3.UpstreamEndpointStats{{Address: address("10.0.0.1"), TotalIssuedRequests: 1}}
		c := of(fmt.Sprint("c", i), l)[0]
		c.DroppedRequests = []*endpointv3.ClusterStats_DroppedRequests{{Category: "x", DroppedCount: 1}}
		many = append(many, c)
	}
	if left := greedy.Report(many); left < 900 {
		t.Fatalf("only %d of 1000 clusters left out", left)
	}
	if room := o.account.sums.room; room < 0 || room > bound {
		t.Fatalf("%d bytes of room", room)
	}
	issued := func() (known, clusters uint64) {
		for _, c := range taken(o.Outlet) {
			clusters++
			if c.GetClusterName() == "known" {
				known = c.GetUpstreamLocalityStats()[0].GetTotalIssuedRequests()
			}
		}
		return known, clusters
	}
	if left := modest.Report(of("known", zone("z", 7, 0))); left != 0 {
		t.Fatal("a known locality is left out")
	}
	if known, clusters := issued(); known != 8 || clusters < 10 || clusters > 100 {
		t.Fatalf("issued %d in %d clusters", known, clusters)
	}
	greedy.Leave()
	issued()
	if left := modest.Report(of("new", zone("z", 1, 1))); left != 0 {
		t.Fatal("no room although nothing is held")
	}
}

func keyOf(k int) aggregation.Key { return aggregation.Key(fmt.Sprint("k", k)) }

// TestConcurrently: clients report, come and go all at once while the sums are
// taken; in the end everything was told once, for each key.
func TestConcurrently(t *testing.T) {
	r := newRig(t, Config{Linger: time.Hour})
	defer r.Close()
	const keys, clients, reports = 3, 8, 50
	keep := make([]*Client, keys)
	outlets := make(map[aggregation.Key]*Outlet)
	for k := range keys {
		keep[k] = r.join(keyOf(k)) // so that the account stays
		o := (<-r.outlets).Outlet
		outlets[o.Key()] = o
		mustAsk(t, o, everything(time.Second))
	}
	reported, told := make([]numbers, keys), make([]numbers, keys)
	var mu sync.Mutex
	var reporting sync.WaitGroup
	for k := range keys {
		reported[k], told[k] = numbers{}, numbers{}
		for range clients {
			reporting.Go(func() {
				c := r.join(keyOf(k))
				for range reports {
					stats := of(fmt.Sprint("c", rand.N(3)), zone(fmt.Sprint("z", rand.N(3)), rand.N[uint64](5), rand.N[uint64](5)))
					mu.Lock()
					reported[k].add(stats, 1)
					mu.Unlock()
					c.Report(stats)
					if rand.N(10) == 0 {
						c.Leave()
						c = r.join(keyOf(k))
					}
				}
				c.Leave()
			})
		}
	}
	stop := make(chan struct{})
	var taking sync.WaitGroup
	for k := range keys {
		taking.Go(func() {
			for last := false; !last; {
				select {
				case <-stop:
					last = true
				default:
				}
				o := outlets[keyOf(k)]
				requests := o.Take()
				if !last && rand.N(3) == 0 {
					o.GiveBack(requests)
					continue
				}
				for _, q := range requests {
					told[k].add(q.GetClusterStats(), 1)
				}
			}
		})
	}
	reporting.Wait()
	close(stop)
	taking.Wait()
	counter := func(path string) bool { return !gaugePath(path) }
	for k := range keys {
		if got, want := told[k].only(counter), reported[k].only(counter); !maps.Equal(got, want) {
			t.Errorf("key %d: got %v, expected %v", k, got, want)
		}
		if last := taken(outlets[keyOf(k)]); len(last) != 0 {
			t.Errorf("key %d: %v is left", k, last)
		}
		keep[k].Leave()
	}
}
