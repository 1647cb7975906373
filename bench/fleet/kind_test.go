package fleet

import (
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// breach is a way to break the protocol, and what the fleet has to find.
type breach struct {
	name string
	want Kind // "" for nothing
	says string
	cfg  Config
	do   func(s *script)
}

var known = content.Spec{Keys: 1, Clusters: 2}

// both are breaches of either variant.
var both = []breach{
	{"nothing is wrong", "", "", Config{Content: known}, func(s *script) {
		s.send(eds, "1", s.at(eds, 0, 1))
		s.answered()
		// After a cluster, its endpoints may come again (E3).
		s.send(cds, "1", s.first(cds, 1)...)
		s.answered()
		s.send(eds, "1", s.at(eds, 0, 1))
		s.answered()
	}},
	{"no nonce", NoNonce, "cds", Config{}, func(s *script) { s.sendAs("", cds, "1", s.first(cds, 1)...) }},
	{"the last nonce again", RepeatedNonce, `"nonce-2" of type eds`, Config{FirstClient: 1}, func(s *script) {
		s.sendAs("nonce-2", eds, "1", s.at(eds, 0, 1))
	}},
	{"another type's nonce", "", "", Config{}, func(s *script) { s.sendAs("nonce-1", eds, "1", s.at(eds, 0, 1)) }},
	{"a nonce from long ago", RepeatedNonce, `"nonce-2" of type eds`, Config{}, func(s *script) {
		for i := range uint64(10) {
			s.send(eds, string('a'+byte(i)), s.at(eds, 0, i+1))
			s.answered()
		}
		s.sendAs("nonce-2", eds, "z", s.at(eds, 0, 20))
	}},
	{"a type that was not asked for", UnaskedType, "Listener", Config{}, func(s *script) {
		s.send(lds, "1")
		s.send(eds, "1", s.at(eds, 0, 1)) // which is answered, unlike that
	}},
	{"a name that was not asked for", UnaskedName, "service-00007 of type eds", Config{}, func(s *script) {
		s.send(eds, "1", s.at(eds, 7, 1))
	}},
	{"another key's name", ForeignName, `"key-00001/service-00000" of type eds`, Config{}, func(s *script) {
		s.send(eds, "1", s.spec.Message(content.EndpointURL, 1, 0, content.Stamp{}))
	}},
	{"a name that none can have", ForeignName, `"backend"`, Config{}, func(s *script) {
		s.send(eds, "1", xdstest.Endpoints("backend"))
	}},
	{"a name twice", DuplicateName, "service-00000 is in a response twice", Config{}, func(s *script) {
		s.send(eds, "1", s.at(eds, 0, 1), s.at(eds, 0, 1))
	}},
	{"content of another type", Malformed, `it has the type "` + content.EndpointURL, Config{}, func(s *script) {
		s.wrapped(cds, "key-00000/service-00000", "w", xdstest.Any(s.at(eds, 0, 1)))
	}},
	{"content that cannot be read", Malformed, "malformed", Config{}, func(s *script) {
		s.wrapped(eds, "key-00000/service-00000", "w", &anypb.Any{TypeUrl: content.EndpointURL, Value: []byte{10, 200, 1}})
	}},
	{"content without a stamp", Altered, "no stamp", Config{}, func(s *script) {
		s.send(eds, "1", xdstest.Endpoints("key-00000/service-00000"))
	}},
	{"content that is not the origin's", Altered, "service-00000 of type eds is not what the origin has at revision 0", Config{Content: content.Spec{Keys: 1, Clusters: 2, EndpointSize: 500}}, func(*script) {}},
	{"no version", NoVersion, "", Config{}, func(s *script) { s.send(cds, "", s.first(cds, 1)...) }},
	{"an older revision", WentBack, "service-00000 of type eds changed from revision 3 back to 2", Config{}, func(s *script) {
		s.send(eds, "3", s.at(eds, 0, 3))
		s.answered()
		s.send(eds, "2", s.at(eds, 0, 2))
	}},
	{"the same again", Resent, "service-00001", Config{}, func(s *script) { s.send(eds, "0", s.at(eds, 1, 0)) }},
	{"the rejected again", ResentRejected, "eds", Config{Nack: 100}, func(s *script) {
		s.send(eds, "1", s.at(eds, 0, 1))
		if r := s.answered(); !r.IsNack() || s.Stats().NACKs != 1 {
			s.t.Errorf("got %s and %d NACKs, expected a NACK", r, s.Stats().NACKs)
		}
		s.send(eds, "1", s.at(eds, 0, 1))
	}},
	{"the rejected, after its cluster, which was rejected, too", "", "", Config{Nack: 100}, func(s *script) {
		s.send(eds, "1", s.at(eds, 0, 1))
		s.answered()
		s.send(cds, "1", s.first(cds, 1)...)
		s.answered()
		s.send(eds, "1", s.at(eds, 0, 1)) // E3
		s.answered()
		s.send(cds, "2", s.first(cds, 2)...)
		s.answered()
		s.send(eds, "0", s.at(eds, 0, 0)) // E3: what it holds
	}},
	{"something else than the rejected", "", "", Config{Nack: 100}, func(s *script) {
		s.send(eds, "1", s.at(eds, 0, 1))
		s.answered()
		s.send(eds, "2", s.at(eds, 0, 2))
	}},
}

// deltaOnly and sotwOnly are breaches of one variant.
var (
	deltaOnly = []breach{
		{"a removal", Removed, "service-00001 of type cds", Config{Content: known}, func(s *script) {
			s.raw(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: content.ClusterURL, Nonce: "x", RemovedResources: []string{"key-00000/service-00001"}})
		}},
		{"a removal of what was not asked for", UnaskedName, "service-00005", Config{}, func(s *script) {
			s.raw(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: content.EndpointURL, Nonce: "x", RemovedResources: []string{"key-00000/service-00005"}})
		}},
		{"no body", Malformed, "no body", Config{}, func(s *script) { s.wrapped(cds, "key-00000/service-00000", "w", nil) }},
		{"two names for one resource", Malformed, `the body has the name "key-00000/service-00001"`, Config{}, func(s *script) {
			s.wrapped(cds, "key-00000/service-00000", "w", xdstest.Any(s.at(cds, 1, 1)))
		}},
		{"a version for two contents", VersionReused, `"0" with two contents`, Config{}, func(s *script) {
			s.wrapped(eds, "key-00000/service-00000", "0", xdstest.Any(s.at(eds, 0, 1)))
		}},
		{"two versions for one content", VersionDiffers, `the versions "0" and "other"`, Config{}, func(s *script) {
			s.send(cds, "other", s.at(cds, 0, 0))
		}},
		{"what it came back with", Resent, "service-00000 of type cds", Config{}, func(s *script) {
			s.kickAll(kickWarm)
			s.stream = s.origin.NextStream(s.t)
			for k := range eds + 1 {
				r := s.stream.NextRequestOf(s.t, k.info().url)
				want := map[string]string{"key-00000/service-00000": "0", "key-00000/service-00001": "0"}
				if !maps.Equal(r.Initial, want) {
					s.t.Errorf("it holds %v of type %s, expected %v", r.Initial, k.info().name, want)
				}
			}
			s.send(cds, "0", s.at(cds, 0, 0))
		}},
	}
	sotwOnly = []breach{
		{"a part of the full state", Incomplete, "1 resources of type cds is without key-00000/service-00001", Config{Content: known}, func(s *script) {
			s.send(cds, "1", s.at(cds, 0, 1))
		}},
		{"the full state again", Resent, "a full state of type cds", Config{}, func(s *script) {
			s.send(cds, "0", s.at(cds, 0, 0), s.at(cds, 1, 0))
		}},
		{"a version for two full states", VersionReused, `"0" with two contents`, Config{}, func(s *script) {
			s.send(cds, "0", s.at(cds, 0, 1), s.at(cds, 1, 0))
		}},
		{"a version for two parts", VersionReused, "type eds", Config{}, func(s *script) { s.send(eds, "0", s.at(eds, 0, 1)) }},
		{"two versions for one full state", VersionDiffers, `the versions "0" and "other"`, Config{}, func(s *script) {
			s.kickAll(kickCold)
			s.stream = s.origin.NextStream(s.t)
			s.stream.NextRequest(s.t)
			s.send(cds, "other", s.at(cds, 0, 0), s.at(cds, 1, 0))
		}},
		{"what it came back with", "", "", Config{}, func(s *script) {
			s.kickAll(kickWarm)
			s.accept() // a server need not look at the version
		}},
	}
)

func (s *script) kickAll(how int32) {
	for _, l := range s.links {
		l.kick(how)
	}
}

// TestBreaches holds that each way to break the protocol is found, for what it
// is, and nothing else (B4, B5, B14, B27, B29, B30, B31, B37, C10, D2, D7, D12,
// D14, E3, K6, K11, K13).
func TestBreaches(t *testing.T) {
	for _, variant := range []struct {
		name  string
		delta bool
		own   []breach
	}{{"delta", true, deltaOnly}, {"state of the world", false, sotwOnly}} {
		t.Run(variant.name, func(t *testing.T) {
			for _, b := range slices.Concat(both, variant.own) {
				t.Run(b.name, func(t *testing.T) {
					b.cfg.Delta = variant.delta
					s := scripted(t, b.cfg)
					b.do(s)
					s.taken()
					got := s.Stats().Violations
					if b.want == "" && len(got) > 0 || b.want != "" && (len(got) != 1 || !strings.Contains(got[b.want].First, b.says)) {
						t.Errorf("found %v, expected %q with %q", got, b.want, b.says)
					}
				})
			}
		})
	}
}

// TestTwoClients holds that versions are compared between clients (K11).
func TestTwoClients(t *testing.T) {
	s := scripted(t, Config{Delta: true, Clients: 2})
	s.send(eds, "mine", s.at(eds, 0, 1))
	s.answered()
	s.stream = s.origin.Streams()[0]
	s.send(eds, "yours", s.at(eds, 0, 1))
	for !s.stream.NextRequest(t).IsAck() {
		continue
	}
	xdstest.Eventually(t, "the violation", func() bool { return len(s.Stats().Violations) > 0 })
	if v := s.Stats().Violations[VersionDiffers]; v.Count != 1 || !strings.Contains(v.First, `"mine" and "yours"`) {
		t.Errorf("found %v, expected that the versions differ", s.Stats().Violations)
	}
}

// TestNewNames holds that clients ask for the endpoints of new clusters, and no
// longer for those of clusters that are gone.
func TestNewNames(t *testing.T) {
	for _, delta := range []bool{true, false} {
		s := scripted(t, Config{Delta: delta})
		third := s.at(cds, 2, 1)
		if delta {
			s.send(cds, "1", third)
		} else {
			s.send(cds, "1", s.at(cds, 0, 0), s.at(cds, 1, 0), third)
		}
		r := s.stream.NextRequestOf(t, content.EndpointURL)
		for r.IsAck() && len(r.Subscribe)+len(r.Names) < 1 { // of what it was sent before
			r = s.stream.NextRequestOf(t, content.EndpointURL)
		}
		name := third.(*clusterv3.Cluster).GetName()
		if !slices.Equal(r.Subscribe, []string{name}) && !slices.Equal(r.Names, []string{"key-00000/service-00000", "key-00000/service-00001", name}) {
			t.Fatalf("got %s, expected a request for %s", r, name)
		}
		s.send(eds, "1", s.at(eds, 2, 1))
		gone := func() {
			s.raw(&discoveryv3.DeltaDiscoveryResponse{
				TypeUrl: content.ClusterURL, Nonce: "gone", RemovedResources: []string{name},
			})
		}
		if !delta {
			gone = func() {
				s.raw(&discoveryv3.DiscoveryResponse{
					TypeUrl: content.ClusterURL, Nonce: "gone", VersionInfo: "0",
					Resources: []*anypb.Any{xdstest.Any(s.at(cds, 0, 0)), xdstest.Any(s.at(cds, 1, 0))},
				})
			}
		}
		gone()
		for len(r.Unsubscribe) != 1 && (delta || len(r.Names) != 2) {
			r = s.stream.NextRequestOf(t, content.EndpointURL)
		}
		xdstest.Eventually(t, "the client has everything", func() bool { return s.synced.Load() == 1 })
		well(t, s.Fleet)
	}
}

// TestEnds holds that the end of a stream is counted as what it was, that the
// client comes back with what it holds, and that others on the connection do not
// notice.
func TestEnds(t *testing.T) {
	for _, shared := range []int{1, 2} {
		s := scripted(t, Config{Delta: true, Clients: shared, StreamsPerConn: shared})
		s.stream.Close(status.New(codes.ResourceExhausted, "try another"))
		s.stream = s.origin.NextStream(t)
		if r := s.stream.NextRequestOf(t, content.EndpointURL); len(r.Initial) != 2 || len(r.Subscribe) != 2 {
			t.Errorf("it comes back with %s, expected the two that it holds", r)
		}
		xdstest.Eventually(t, "all clients", func() bool { return s.connected.Load() == int64(shared) })
		got := s.Stats()
		if want := (End{1, "try another"}); len(got.Ends) != 1 || got.Ends["ResourceExhausted"] != want || len(got.Violations) > 0 {
			t.Errorf("with %d clients: %+v, %+v, expected one end", shared, got.Ends, got.Violations)
		}
		if n := len(s.origin.Streams()); n != shared+1 {
			t.Errorf("%d streams were opened, expected %d", n, shared+1)
		}
	}
}
