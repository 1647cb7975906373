package fleet

import (
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/bench/content"
	"xdsrelay/relay/xdstest"
)

// script is a fleet at a control plane whose every word is the test's.
type script struct {
	*Fleet
	t      *testing.T
	origin *xdstest.Origin
	stream *xdstest.OriginStream // of the client that connected last
	spec   content.Spec
	nonces int
	sent   int64 // responses
	last   kind  // of the last one
}

// scripted connects a client of key 0 and lets it have revision 0 of two
// clusters and their endpoints.
func scripted(t *testing.T, cfg Config) *script {
	t.Helper()
	s := &script{t: t, origin: xdstest.NewOrigin(t), spec: content.Spec{Keys: 1, Clusters: 2}}
	cfg.Addrs = []string{s.origin.Addr()}
	if cfg.Clients == 0 {
		cfg.Clients = 1
	}
	if len(cfg.Types) == 0 {
		cfg.Types = []string{"cds", "eds"}
	}
	s.Fleet = newFleet(t, cfg)
	for range len(s.links) {
		s.next()
	}
	return s
}

// next lets the clients of another connection have everything.
func (s *script) next() {
	s.t.Helper()
	s.start(1)
	for range s.cfg.StreamsPerConn {
		s.accept()
	}
	xdstest.Eventually(s.t, "the client has everything", func() bool { return s.synced.Load() == int64(len(s.running())) })
}

// accept takes a client's stream and answers its first requests.
func (s *script) accept() {
	s.t.Helper()
	s.stream = s.origin.NextStream(s.t)
	for k := range eds + 1 {
		s.stream.NextRequestOf(s.t, k.info().url)
		s.send(k, "0", s.at(k, 0, 0), s.at(k, 1, 0))
		s.answered()
	}
}

// at is a resource of key 0 as of a revision.
func (s *script) at(k kind, i int, revision uint64) proto.Message {
	return s.spec.Message(k.info().url, 0, i, content.Stamp{Revision: revision, At: time.Unix(1_700_000_000, 0).Add(time.Duration(revision) * time.Second)})
}

// first is what tells a new revision of the first cluster: it, and in a full
// state the second.
func (s *script) first(k kind, revision uint64) []proto.Message {
	if s.cfg.Delta {
		return []proto.Message{s.at(k, 0, revision)}
	}
	return []proto.Message{s.at(k, 0, revision), s.at(k, 1, 0)}
}

// send sends a response with a nonce of its own.
func (s *script) send(k kind, version string, resources ...proto.Message) {
	s.t.Helper()
	s.nonces++
	s.sendAs(fmt.Sprint("nonce-", s.nonces), k, version, resources...)
}

// sendAs sends a response with a nonce. On delta a resource's version is its
// revision, unless version is empty or a word.
func (s *script) sendAs(nonce string, k kind, version string, resources ...proto.Message) {
	s.t.Helper()
	if s.cfg.Delta {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: k.info().url, SystemVersionInfo: version, Nonce: nonce}
		for _, r := range resources {
			body := xdstest.Any(r)
			v := version
			if stamp, ok := content.FindStamp(body.GetValue()); ok && v != "" && v[0] <= '9' {
				v = fmt.Sprint(stamp.Revision)
			}
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: xdstest.NameOf(r), Version: v, Resource: body})
		}
		s.raw(m)
		return
	}
	m := &discoveryv3.DiscoveryResponse{TypeUrl: k.info().url, VersionInfo: version, Nonce: nonce}
	for _, r := range resources {
		m.Resources = append(m.Resources, xdstest.Any(r))
	}
	s.raw(m)
}

func (s *script) raw(m interface {
	proto.Message
	GetTypeUrl() string
}) {
	s.t.Helper()
	s.sent++
	s.last, _ = kindOf([]byte(m.GetTypeUrl()))
	if err := s.stream.Send(m); err != nil {
		s.t.Fatal(err)
	}
}

// answered waits for the ACK or NACK of what was sent last.
func (s *script) answered() *xdstest.Request {
	s.t.Helper()
	for {
		if r := s.stream.NextRequestOf(s.t, s.last.info().url); r.IsAck() || r.IsNack() {
			return r
		}
	}
}

// taken waits until the clients have taken all that was sent.
func (s *script) taken() {
	s.t.Helper()
	xdstest.Eventually(s.t, "all responses", func() bool { return s.Stats().Responses == s.sent })
}

// wrapped sends a response with one resource as it is given.
func (s *script) wrapped(k kind, name, version string, body *anypb.Any) {
	s.t.Helper()
	if s.cfg.Delta {
		s.raw(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: k.info().url, Nonce: "wrapped",
			Resources: []*discoveryv3.Resource{{Name: name, Version: version, Resource: body}},
		})
		return
	}
	s.raw(&discoveryv3.DiscoveryResponse{TypeUrl: k.info().url, Nonce: "wrapped", VersionInfo: version, Resources: []*anypb.Any{body}})
}
