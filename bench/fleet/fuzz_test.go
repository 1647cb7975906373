package fleet

import (
	"errors"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"xdsrelay/bench/content"
	"xdsrelay/bench/fleet/h2"
)

func contains(err error, text string) bool { return strings.Contains(err.Error(), text) }

// FuzzResponse holds that no response does harm, that what clients read of it is
// what protobuf says, and that a client's state stays in order.
func FuzzResponse(f *testing.F) {
	spec := content.Spec{Keys: 1, Clusters: 3}
	stamp := content.Stamp{Revision: 2, At: time.Unix(1, 0)}
	sotw := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: "n", TypeUrl: content.ClusterURL}
	delta := &discoveryv3.DeltaDiscoveryResponse{SystemVersionInfo: "1", Nonce: "n", TypeUrl: content.ClusterURL, RemovedResources: []string{content.Name(content.ClusterURL, 0, 2)}}
	for i := range 2 {
		body := spec.Resource(content.ClusterURL, 0, i, stamp)
		sotw.Resources = append(sotw.Resources, body)
		delta.Resources = append(delta.Resources, &discoveryv3.Resource{Name: content.Name(content.ClusterURL, 0, i), Version: "v", Resource: body})
	}
	for _, m := range []proto.Message{sotw, delta, &discoveryv3.DiscoveryResponse{Nonce: "only"}} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, b, true)
		f.Add(b, b[:len(b)/2], false)
	}
	f.Fuzz(func(t *testing.T, first, second []byte, isDelta bool) {
		fl := &Fleet{cfg: Config{Delta: isDelta, Content: content.Spec{Keys: 1}}, types: 1<<kinds - 1}
		v := newView(fl, 0)
		st := nothing
		for _, m := range [][]byte{first, second} {
			e, at, err := readEnvelope(m)
			if isDelta {
				checkEnvelope(t, m, &discoveryv3.DeltaDiscoveryResponse{}, &e, err)
			} else {
				checkEnvelope(t, m, &discoveryv3.DiscoveryResponse{}, &e, err)
			}
			if err != nil {
				return
			}
			checkRest(t, m, at, &e)
			k, ok := kindOf(e.url)
			if !ok {
				return
			}
			v.mu.Lock()
			b := v.bodyLocked(k, &e, &h2.Message{Own: m})
			s := v.stepLocked(stepKey{from: st, body: b, asked: everything})
			v.mu.Unlock()
			st = s.to
			checkState(t, st)
		}
	})
}

// checkEnvelope compares with what the protobuf library reads.
func checkEnvelope(t *testing.T, m []byte, want interface {
	proto.Message
	GetNonce() string
	GetTypeUrl() string
}, e *envelope, err error) {
	t.Helper()
	if proto.Unmarshal(m, want) != nil {
		return // it may look further than we do
	}
	if err != nil || string(e.nonce) != want.GetNonce() || string(e.url) != want.GetTypeUrl() {
		t.Fatalf("read %+v, %v, expected nonce %q and type %q", e, err, want.GetNonce(), want.GetTypeUrl())
	}
}

// checkRest holds that the envelope is the same when it is read from the nonce
// on.
func checkRest(t *testing.T, m []byte, at int, e *envelope) {
	t.Helper()
	if at <= 0 {
		return
	}
	head, _, err := readEnvelope(m[:at])
	if err != nil {
		t.Fatalf("what comes before the nonce: %v", err)
	}
	rest := envelope{url: head.url, version: head.version, hash: head.hash}
	if err := rest.read(m[at:], nil); err != nil || rest.hash != e.hash || string(rest.url) != string(e.url) || string(rest.nonce) != string(e.nonce) {
		t.Fatalf("from the nonce on: %+v, %v, expected %+v", rest, err, e)
	}
}

// checkState holds that a state agrees with itself.
func checkState(t *testing.T, s *state) {
	t.Helper()
	var sum uint64
	s.has.each(func(i int) { sum += sumOf(i, s.held[i]) })
	if sum != s.sum {
		t.Fatal("the sum is not that of what is held")
	}
	for i, h := range s.held {
		if !s.has.has(i) && h != (held{}) {
			t.Fatalf("%d is held and not there", i)
		}
	}
}

// TestFuzzSeeds holds that the seeds reach what they are for.
func TestFuzzSeeds(t *testing.T) {
	_, err := readResource(mustMarshal(t, &discoveryv3.Resource{Name: "a", Resource: &anypb.Any{Value: []byte{10, 1, 'b'}}}), true)
	if err == nil || !contains(err, `the body has the name "b"`) {
		t.Errorf("got %v, expected that the names differ", err)
	}
	if _, _, err := readEnvelope([]byte{8}); !errors.Is(err, errEncoding) {
		t.Errorf("got %v, expected %v", err, errEncoding)
	}
}

func mustMarshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
