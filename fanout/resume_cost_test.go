package fanout

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"xdsrelay/relay/xdstest"
)

// TestCostOfAReturn: B37: what a node allocates for a client that returns with versions does not
// grow with their number, and nothing that has not changed is sent.
func TestCostOfAReturn(t *testing.T) {
	const clusters, returns = 1000, 20
	f := newFleet(t, 2, clusters, true)
	bytesOf := func(what string, b []byte, resources int) (each uint64) {
		var total uint64
		for range returns {
			call := &fakeCall{}
			s := &stream{srv: f.srv, form: form{delta: true}, caller: callerOf(call), nonces: 1000}
			if err := f.srv.add(s); err != nil {
				t.Fatal(err)
			}
			_, total = subMem(0, total)
			err := s.take(b)
			_, total = addMem(0, total)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got := 0
			if call.last != nil {
				var sent discoveryv3.DeltaDiscoveryResponse
				if err := proto.Unmarshal(append(append([]byte(nil), call.last.Body...), call.last.Tail...), &sent); err != nil {
					t.Fatal(err)
				}
				got = len(sent.GetResources())
			}
			if got != resources {
				t.Errorf("%s: %d resources sent, expected %d", what, got, resources)
			}
			f.srv.remove(s)
			s.close()
		}
		return total / returns
	}
	request := func(change func(map[string]string)) []byte {
		held := make(map[string]string, clusters)
		for i := range clusters {
			r := clusterOf(i, 0)
			held[r.Name] = r.Version
		}
		change(held)
		b, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: xdstest.Node("client", "test-cluster"), TypeUrl: cds, InitialResourceVersions: held})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	right := request(func(map[string]string) {})
	old := request(func(held map[string]string) { held["cluster-000007"] = "old" })
	most := uint64(len(right) / 4) // a decoded list takes more than the request
	for what, tc := range map[string]struct {
		request   []byte
		resources int
	}{"with what it should have": {right, 0}, "with one older version": {old, 1}} {
		if each := bytesOf(what, tc.request, tc.resources); each > most {
			t.Errorf("a return %s allocates %d bytes, expected at most %d; the request has %d", what, each, most, len(tc.request))
		} else {
			t.Logf("a return %s allocates %d bytes; the request has %d", what, each, len(tc.request))
		}
	}
}
