package fanout

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/xdstest"
)

// Short names of the types that most tests use.
const (
	cds = resource.ClusterURL
	eds = resource.EndpointURL
	lds = resource.ListenerURL
	rds = resource.RouteURL
)

// short is a short window in which nothing may happen, for tests that have many of them.
const short = 100 * time.Millisecond

// endpoints returns endpoints whose content depends on v.
func endpoints(name string, v int) proto.Message {
	return xdstest.Endpoints(name, net.JoinHostPort("127.0.0.1", strconv.Itoa(1000+v)))
}

// route returns a route to a cluster.
func route(name, to string) proto.Message { return xdstest.Route(name, to) }

// listener returns a listener whose content depends on v.
func listener(name string, v int) proto.Message {
	return xdstest.Listener(name, "0.0.0.0:"+strconv.Itoa(1000+v), "routes")
}

// both runs f for the two variants on ADS, in virtual time.
func both(t *testing.T, f func(t *testing.T, delta bool)) {
	for name, delta := range map[string]bool{"sotw": false, "delta": true} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) { f(t, delta) })
		})
	}
}

// each runs f for every variant that carries a type, ADS and its own service, in
// virtual time.
func each(t *testing.T, typeURL string, f func(t *testing.T, v xdstest.Variant)) {
	for _, v := range xdstest.Variants(typeURL) {
		t.Run(v.String(), func(t *testing.T) {
			virtual(t, func(t *testing.T) { f(t, v) })
		})
	}
}

// has fails the test unless the frame has exactly these resources.
func has(t xdstest.TB, f *xdstest.Frame, names ...string) *xdstest.Frame {
	t.Helper()
	return hasRemoved(t, f, nil, names...)
}

// hasRemoved fails the test unless the frame has exactly these removals and resources.
func hasRemoved(t xdstest.TB, f *xdstest.Frame, removed []string, names ...string) *xdstest.Frame {
	t.Helper()
	if got := f.Names(); !slices.Equal(got, names) {
		t.Fatalf("expected the resources %v: %v", names, f)
	}
	if got := slices.Sorted(slices.Values(f.Removed)); !slices.Equal(got, removed) {
		t.Fatalf("expected the removals %v: %v", removed, f)
	}
	return f
}

// version returns the version by which clients know a resource of the world.
func version(t xdstest.TB, m proto.Message) string { return resources(t, m)[0].Version }

// info returns the server's description of a type on its only stream: of several streams, it could be the
// wrong one, so that is an error of the test, for which settledAll exists.
func (w *world) info(typeURL string) TypeInfo {
	w.t.Helper()
	streams := w.srv.Streams()
	if len(streams) > 1 {
		w.t.Fatalf("the state of %s was asked for with %d streams", typeURL, len(streams))
	}
	for _, s := range streams {
		for _, i := range s.Types {
			if i.TypeURL == typeURL {
				return i
			}
		}
	}
	return TypeInfo{}
}

// settled waits until the server has processed the answer to its last response of a type.
func (w *world) settled(typeURL string, state State) {
	w.t.Helper()
	xdstest.Eventually(w.t, fmt.Sprintf("%s to be %s", typeURL, state), func() bool { return w.info(typeURL).State == state })
}

// absent reports to the relay, as a delta control plane or a silent one would, that names do not
// exist.
func (w *world) absent(typeURL string, names ...string) {
	w.t.Helper()
	w.origin().Absent(resource.TypeOf(typeURL), names)
}

// feedOf returns the feed of a key that just got its first client.
func (w *world) feedOf(key string) *cache.Feed {
	w.t.Helper()
	select {
	case f := <-w.feeds:
		if string(f.Key()) != key {
			w.t.Fatalf("a feed was started for %q, expected %q", f.Key(), key)
		}
		return f.Feed
	case <-time.After(xdstest.Patience):
		w.t.Fatalf("no feed was started for %q", key)
		return nil
	}
}

// named applies a resource that is named by its envelope.
func (w *world) named(typeURL, name string, m proto.Message) {
	w.t.Helper()
	body, err := proto.Marshal(xdstest.Any(m))
	if err != nil {
		w.t.Fatalf("marshal: %v", err)
	}
	w.origin().Apply(cache.Update{Type: resource.TypeOf(typeURL), Resources: []*resource.Resource{resource.New(resource.Resource{Name: name, Body: body})}})
}

// deltaRequest is for requests that a correct client does not make.
type deltaRequest = discoveryv3.DeltaDiscoveryRequest

// wildcards waits until the given number of streams has the wildcard of a type.
func (w *world) wildcards(typeURL string, n int) {
	w.t.Helper()
	xdstest.Eventually(w.t, "the wildcards to be counted", func() bool {
		got := 0
		for _, s := range w.srv.Streams() {
			for _, i := range s.Types {
				if i.TypeURL == typeURL && i.Wildcard {
					got++
				}
			}
		}
		return got == n
	})
}
