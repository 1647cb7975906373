package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// TestPollTwice: content that the client has is not sent again: the second poll ends with 304. With
// one more name at the same version it is 200 (H4).
func TestPollTwice(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("b", 1))
	version := w.has(w.post(endpoints, ask("", "a")), "a")
	w.unchanged(w.post(endpoints, ask(version, "a")))
	more := w.has(w.post(endpoints, ask(version, "a", "b")), "a", "b")
	if more == version {
		t.Fatal("one version for two sets of names")
	}
	w.unchanged(w.post(endpoints, ask(more, "b", "a", "b"))) // in any order, and twice
	w.has(w.post(endpoints, ask(more, "a")), "a")
}

// TestChangeDuringTheHold: a waiting poll is answered as soon as content changes that it can see,
// and not before (H4).
func TestChangeDuringTheHold(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1), cluster("b", 1))
	version := w.has(w.post(clusters, ask("")), "a", "b")
	done := w.waiting(1, clusters, ask(version))
	w.change(eds, nil, endpointsOf("a", 1))
	w.serve("v2", cds, cluster("a", 1), cluster("b", 1)) // the same under another version (B31)
	w.silent(done)
	w.serve("v3", cds, cluster("a", 2), cluster("b", 1))
	changed := w.has(w.arrives(done), "a", "b") // the full set (H6)
	if changed == version {
		t.Fatal("the version did not change")
	}
	done = w.waiting(1, clusters, ask(changed))
	w.serve("v4", cds)
	w.has(w.arrives(done)) // B32: no cluster is left, and the client gets that
}

// inTime runs a poll in virtual time and returns how long it took.
func inTime(t *testing.T, f func(t *testing.T, w *world, poll func(path, version string, names ...string) (*answer, time.Duration)), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSilentWorld(t, change...)
		f(t, w, func(path, version string, names ...string) (*answer, time.Duration) {
			began := time.Now()
			a := w.poll(t, t.Context(), path, version, names...)
			return a, time.Since(began)
		})
	})
}

// poll polls without HTTP.
func (w *world) poll(t *testing.T, ctx context.Context, path, version string, names ...string) *answer {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(ask(version, names...)))
	if err != nil {
		t.Fatal(err)
	}
	return w.srv.serve(httptest.NewRecorder(), req, w.srv.types[path])
}

// TestHoldEnds: the hold ends with 304 before one second, the timeout of Envoy (H4).
func TestHoldEnds(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, poll func(string, string, ...string) (*answer, time.Duration)) {
		w.known(clusters, cluster("a", 1))
		version := w.version(t, clusters)
		if a, took := poll(clusters, version); a.status != http.StatusNotModified || took != 900*time.Millisecond {
			t.Errorf("%d after %v", a.status, took)
		}
		if a, took := poll(clusters, ""); a.status != http.StatusOK || took != 0 {
			t.Errorf("%d after %v", a.status, took)
		}
	})
}

// version returns the version of a first answer for the names of one type.
func (w *world) version(t *testing.T, path string, names ...string) string {
	t.Helper()
	a := w.poll(t, t.Context(), path, "", names...)
	return w.message(&reply{a.status, http.Header{"Content-Type": {"application/json"}}, a.body}).VersionInfo
}

// TestNothingKnown: before the control plane has answered no client gets an empty answer: a client
// without a version is asked to retry, one with a version keeps what it has (K13, H4, K15).
func TestNothingKnown(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, poll func(string, string, ...string) (*answer, time.Duration)) {
		for _, path := range []string{clusters, endpoints} {
			a, took := poll(path, "", "a")
			if a.status != http.StatusServiceUnavailable || took != 900*time.Millisecond || !strings.Contains(string(a.body), "has not answered") {
				t.Errorf("%s: %d after %v: %s", path, a.status, took, a.body)
			}
			if a, took = poll(path, "v", "a"); a.status != http.StatusNotModified || took != 900*time.Millisecond {
				t.Errorf("%s: %d after %v: %s", path, a.status, took, a.body)
			}
		}
		w.origin().Down(errors.New("refused"))
		if a, _ := poll(clusters, "", "a"); a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), "is unreachable") {
			t.Errorf("%d: %s", a.status, a.body)
		}
	})
}

// TestNothingThere: once the control plane has answered, a waiting poll gets an empty answer (K13,
// B24).
func TestNothingThere(t *testing.T) {
	for path, typeURL := range map[string]string{clusters: cds, endpoints: eds} {
		w := newWorld(t)
		done := w.waiting(1, path, ask("", "a"))
		w.asked(typeURL, "a")
		w.silent(done)
		w.serve("v1", typeURL)
		if path == endpoints {
			w.change(typeURL, []string{"a"}) // the only way to say so (D4)
		}
		version := w.has(w.arrives(done))
		done = w.waiting(1, path, ask(version, "a"))
		w.change(typeURL, nil, xdstest.Synthetic(typeURL, "a", 1))
		w.has(w.arrives(done), "a") // B26
	}
}

// TestUnavailable: the status says when to retry (K13).
func TestUnavailable(t *testing.T) {
	w := newWorld(t, hold(-1))
	res := w.post(clusters, ask(""))
	w.fails(res, http.StatusServiceUnavailable, `"code":14`)
	if res.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", res.header.Get("Retry-After"))
	}
}

// TestPartlyKnown: existing resources do not wait for missing ones, but a full state is not sent
// before it is known to be complete (B25, K13).
func TestPartlyKnown(t *testing.T) {
	w := newWorld(t)
	done := w.waiting(1, endpoints, ask("", "a", "z"))
	w.asked(eds, "a", "z")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(eds), Resources: resources(t, endpointsOf("a", 1)), Kind: cache.Partial})
	w.has(w.arrives(done), "a")

	done = w.waiting(1, clusters, ask("", "a", "z"))
	w.asked(cds, "a", "z")
	w.origin().Apply(cache.Update{Type: resource.TypeOf(cds), Resources: resources(t, cluster("a", 1)), Kind: cache.Partial})
	w.silent(done)
	w.origin().Apply(cache.Update{Type: resource.TypeOf(cds)}) // now complete
	w.has(w.arrives(done), "a")
}

// TestGone: a removal is a change where the answer is the full set, and none where omitting the
// resource would mean nothing (B32, D6).
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1), cluster("b", 1))
	w.known(endpoints, endpointsOf("a", 1))
	cv := w.has(w.post(clusters, ask("")), "a", "b")
	ev := w.has(w.post(endpoints, ask("", "a")), "a")
	c, e := w.waiting(1, clusters, ask(cv)), w.waiting(2, endpoints, ask(ev, "a"))
	w.change(eds, []string{"a"})
	w.silent(e)
	w.change(cds, []string{"a"})
	w.has(w.arrives(c), "b")
	w.change(eds, nil, endpointsOf("a", 2))
	w.has(w.arrives(e), "a")
}

// TestNoStateBetweenPolls: a client that rejected an update polls with its old version and gets the
// update again, any number of times (H5).
func TestNoStateBetweenPolls(t *testing.T) {
	w := newWorld(t)
	w.known(clusters, cluster("a", 1))
	old := w.has(w.post(clusters, ask("")), "a")
	w.serve("v2", cds, cluster("a", 2))
	now := w.has(w.post(clusters, ask(old)), "a")
	if again := w.has(w.post(clusters, ask(old)), "a"); again != now || now == old {
		t.Errorf("versions %q, %q and %q", old, now, again)
	}
	w.watched(0)
}

// TestDemandOutlivesThePoll: the names of a poll stay subscribed, so that the next poll finds their
// content (K10).
func TestDemandOutlivesThePoll(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.fails(w.post(clusters, ask("", "a")), http.StatusServiceUnavailable)
	w.watched(0)
	w.asked(cds, "a")
	w.serve("v1", cds, cluster("a", 1))
	w.has(w.post(clusters, ask("", "a")), "a")
	if len(w.feeds) != 0 {
		t.Error("the second poll has made the relay ask its origin anew")
	}
}

// TestNames: an answer has the requested names, and all names of full-state types; no names mean
// all if the type has a wildcard, and none otherwise (H6).
func TestNames(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(clusters, cluster("a", 1), cluster("b", 1), cluster("c", 1))
	w.known(endpoints, endpointsOf("a", 1), endpointsOf("b", 1))
	w.has(w.post(endpoints, ask("", "a")), "a")
	w.has(w.post(endpoints, ask("", "a", "b")), "a", "b")
	w.has(w.post(endpoints, ask(""))) // and not the names of other clients
	w.has(w.post(clusters, ask("")), "a", "b", "c")
	w.has(w.post(clusters, ask("", "*")), "a", "b", "c")
	w.has(w.post(clusters, ask("", "a", "c")), "a", "c")
	version := w.has(w.post(clusters, ask("", "a", "*")), "a", "b", "c")
	w.change(cds, nil, cluster("b", 2))
	w.has(w.post(clusters, ask(version)), "a", "b", "c")
}

// TestStructuredNames: different spellings of a structured name are one name, and globs do not
// apply to clients that get full states (G1, G6, D8).
func TestStructuredNames(t *testing.T) {
	const name = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/a"
	w := newWorld(t)
	w.has(w.post(endpoints, ask("", "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/*")))
	done := w.waiting(1, endpoints, ask("", name+"?b=1&a=2", "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/*"))
	w.asked(eds, name+"?b=1&a=2")
	w.change(eds, nil, endpointsOf(name+"?a=2&b=1", 1))
	version := w.has(w.arrives(done), name+"?a=2&b=1")
	done = w.waiting(1, endpoints, ask(version, name+"?a=2&b=1"))
	w.change(eds, nil, endpointsOf(name+"?a=2&b=1", 2))
	w.has(w.arrives(done), name+"?a=2&b=1")
}

// TestOriginsVersionsAreNotUsed: a version stands for one content, even if the control plane uses a
// version again (H4, K11).
func TestOriginsVersionsAreNotUsed(t *testing.T) {
	w := newWorld(t, hold(-1))
	w.known(clusters, cluster("a", 1)) // same content as v1
	first := w.has(w.post(clusters, ask("")), "a")
	w.serve("v2", cds, cluster("a", 2))
	w.serve("v1", cds, cluster("a", 3))
	w.has(w.post(clusters, ask(first)), "a")
	w.serve("v9", cds, cluster("a", 1))
	w.unchanged(w.post(clusters, ask(first)))

	other := newWorld(t, hold(-1)) // another node
	other.known(clusters, cluster("a", 1))
	other.unchanged(other.post(clusters, ask(first)))
}

// TestResumedKey: the content of a key that was idle is not sent before the control plane was
// asked, and then without a change of the table (K14).
func TestResumedKey(t *testing.T) {
	inTime(t, func(t *testing.T, w *world, poll func(string, string, ...string) (*answer, time.Duration)) {
		w.known(clusters, cluster("a", 1))
		version := w.version(t, clusters)
		time.Sleep(time.Hour) //nolint:forbidigo // virtual time
		w.feed = nil
		if a, took := poll(clusters, ""); a.status != http.StatusServiceUnavailable || took != 900*time.Millisecond {
			t.Errorf("%d after %v", a.status, took)
		}
		if a, took := poll(clusters, "other"); a.status != http.StatusOK || took != 100*time.Millisecond {
			t.Errorf("%d after %v", a.status, took)
		}
		if a, _ := poll(clusters, version); a.status != http.StatusNotModified {
			t.Errorf("%d", a.status)
		}
	})
}

// TestBehindTheHead: a client with content of another node keeps that while the tier head shows that
// this node's is older (K12): if it asks for everything, and has the version of a head, or if it asks by
// name while the control plane cannot be reached. Otherwise it gets what differs at once. It does not wait
// for longer than a node counts as behind.
func TestBehindTheHead(t *testing.T) {
	const at, newer = resource.ClusterURL, "newer"
	for name, tc := range map[string]struct {
		names []string
		had   string
		lost  bool // the control plane cannot be reached
		keeps bool
	}{
		"everything, with the version of a head":         {nil, newer, false, true},
		"everything, with another version":               {nil, "other", false, false},
		"everything, with nothing":                       {nil, "", false, false},
		"by name":                                        {[]string{"a"}, newer, false, false},
		"by name, in an outage":                          {[]string{"a"}, newer, true, true},
		"by name, in an outage, with nothing":            {[]string{"a"}, "", true, false},
		"everything, in an outage, with another version": {nil, "other", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *world, poll func(string, string, ...string) (*answer, time.Duration)) {
				w.known(clusters, cluster("a", 1))
				w.version(t, clusters, tc.names...)
				if tc.lost {
					w.feed.Down(errors.New("unreachable"))
				}
				head := cache.TierHead{Digest: resource.Digest{1}, Version: newer}
				w.feed.Group().ObserveHead(resource.TypeOf(at), head)
				status, took := http.StatusOK, time.Duration(0)
				if tc.keeps {
					status, took = http.StatusNotModified, 900*time.Millisecond
				}
				if a, after := poll(clusters, tc.had, tc.names...); a.status != status || after != took {
					t.Errorf("%d after %v, expected %d after %v", a.status, after, status, took)
				}
				time.Sleep(headWait) //nolint:forbidigo // virtual time
				if a, after := poll(clusters, tc.had, tc.names...); a.status != http.StatusOK || after != 0 {
					t.Errorf("%d after %v, once it does not count as behind any more", a.status, after)
				}
			})
		})
	}
}

// TestKeysAreApart: clients of two keys get the content of their own control plane stream, even if
// names and versions are equal (K6).
func TestKeysAreApart(t *testing.T) {
	w := newWorld(t)
	body := func(key string) string { return strings.ReplaceAll(ask(""), "test-cluster", key) }
	for i, key := range []string{"red", "blue"} {
		done := w.waiting(1, clusters, body(key))
		w.feed = nil
		if got := w.origin().Key(); got != aggregation.Key(key) {
			t.Fatalf("the origin is asked for %q", got)
		}
		w.asked(cds, "*")
		w.serve("v1", cds, cluster(key, i))
		w.has(w.arrives(done), key)
	}
	w.has(w.post(clusters, body("red")), "red")
	w.has(w.post(clusters, body("blue")), "blue")
}

// TestClientLeaves: nothing is left of a client that disconnects.
func TestClientLeaves(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.try(ctx, http.MethodPost, clusters, strings.NewReader(ask("")))
		ended <- err
	}()
	w.watched(1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client's call ended with %v", err)
	}
	w.watched(0)
}

// TestDrainIsPaced: polls that wait when a drain begins end spread over its time, with their usual
// answer, and no later than their hold (B42).
func TestDrainIsPaced(t *testing.T) {
	for _, hold := range []time.Duration{time.Hour, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const n, over = 100, time.Minute
			w := newSilentWorld(t, func(c *Config) { c.Hold = hold })
			w.known(clusters, cluster("a", 1))
			version := w.version(t, clusters)
			ends := make(chan time.Duration, n)
			began := time.Now()
			for range n {
				go func() {
					if a := w.poll(t, t.Context(), clusters, version); a.status != http.StatusNotModified {
						t.Errorf("a poll ended with %d", a.status)
					}
					ends <- time.Since(began)
				}()
			}
			synctest.Wait()
			if err := w.srv.Drain(t.Context(), over); err != nil {
				t.Fatalf("drain: %v", err)
			}
			var all []time.Duration
			for range n {
				all = append(all, <-ends)
			}
			slices.Sort(all)
			if longest := min(over, hold); all[n-1] > longest || all[n-1] < longest*8/10 || all[n/2] < longest/4 {
				t.Errorf("the ends are at %v", all)
			}
		})
	}
}
