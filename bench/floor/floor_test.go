package floor

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var spec = content.Spec{Keys: 2, Clusters: 3, Listeners: 2, Size: 300}

func start(t *testing.T, cfg Config) (*drive.Driver, *Floor) {
	t.Helper()
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := drive.New(f, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, f
}

// client is a client of a key that wants everything, with its names.
func client(t *testing.T, addr string, k int, delta bool) *xdstest.Auto {
	t.Helper()
	a := xdstest.StartAuto(t, xdstest.AutoConfig{
		Addr: addr, Variant: xdstest.Variant{Delta: delta}, Node: xdstest.Node(content.NodeID(k), content.KeyName(k)),
	})
	for _, typeURL := range spec.Types() {
		var names []string
		if typeURL == content.EndpointURL || typeURL == content.RouteURL {
			names = spec.Names(typeURL, k)
		}
		a.Subscribe(typeURL, names...)
	}
	return a
}

// holds waits until a client of key k holds just what a state says.
func holds(t *testing.T, client *xdstest.Auto, k int, state *content.State) {
	t.Helper()
	client.WaitFor(t, fmt.Sprintf("revision %d", state.Revision().Revision), func() bool {
		for _, typeURL := range spec.Types() {
			held := client.Held(typeURL)
			if len(held) != spec.Count(typeURL) {
				return false
			}
			for i, name := range spec.Names(typeURL, k) {
				want := spec.Resource(typeURL, k, i, state.Stamp(typeURL, i))
				if !bytes.Contains(held[name].Body, want.GetValue()) {
					return false
				}
			}
		}
		return true
	})
}

// TestFloor holds that clients of both variants cannot tell a floor from a
// server that knows the protocol, that each is in step with its key, and that
// what is counted is what they have seen.
func TestFloor(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(fmt.Sprintf("delta=%v", delta), func(t *testing.T) {
			d, f := start(t, Config{Spec: spec, Delta: delta, Sync: true, Transport: GRPC})
			clients := []*xdstest.Auto{client(t, d.Addr(), 0, delta), client(t, d.Addr(), 1, delta), client(t, d.Addr(), 1, delta)}
			everywhere := func() {
				t.Helper()
				for i, c := range clients {
					holds(t, c, min(i, 1), f.state)
				}
			}
			everywhere()
			changes := []content.Change{
				{Kind: content.One}, {Kind: content.Burst, Resources: 2, Type: content.EndpointURL}, {Kind: content.Full},
			}
			for _, c := range changes {
				if _, err := d.Change(c); err != nil {
					t.Fatal(err)
				}
				everywhere()
			}
			// A response for each type at first and in a full change, and for the
			// type of each other change.
			want := int64(len(clients) * (2*len(spec.Types()) + 2))
			xdstest.Eventually(t, "all acknowledgements", func() bool {
				s := d.Stats()
				return s.Responses == want && s.Requests == want+int64(len(clients)*len(spec.Types()))
			})
			for _, c := range clients {
				c.CheckViolations(t)
				if n := c.Stats().Frames; int64(n*len(clients)) != want {
					t.Errorf("a client got %d responses, expected %d", n, want/int64(len(clients)))
				}
			}
			if s := d.Stats(); s.Streams != 3 || s.Revision != 3 || s.BytesIn == 0 || s.ByType[content.ClusterURL].BytesOut < 9*900 {
				t.Errorf("%+v, expected 3 streams at revision 3", s)
			}

			if err := d.Down(); err != nil {
				t.Fatal(err)
			}
			if s := d.Stats(); s.Streams != 0 {
				t.Errorf("%d streams while it is down", s.Streams)
			}
			if _, err := d.Change(content.Change{Kind: content.One}); err != nil {
				t.Fatal(err)
			}
			if err := d.Up(); err != nil {
				t.Fatal(err)
			}
			everywhere()
		})
	}
}

// TestJoinWhileChanging holds that clients which come while there are changes
// end with the last of them.
func TestJoinWhileChanging(t *testing.T) {
	d, f := start(t, Config{Spec: spec, Delta: true, Sync: true, Transport: GRPC})
	if _, err := d.Start(drive.Schedule{Change: content.Change{Kind: content.Full}, Interval: drive.MinInterval}); err != nil {
		t.Fatal(err)
	}
	var clients []*xdstest.Auto
	for range 10 {
		clients = append(clients, client(t, d.Addr(), 1, true))
	}
	for _, c := range clients {
		c.WaitFor(t, "a few changes", func() bool { return c.Stats().Frames > 20 })
	}
	d.Stop()
	for _, c := range clients {
		holds(t, c, 1, f.state)
	}
	if s := d.Stats(); s.Error != "" {
		t.Error(s.Error)
	}
}

// TestWithoutSync holds that then a floor answers nothing and only broadcasts.
func TestWithoutSync(t *testing.T) {
	d, _ := start(t, Config{Spec: content.Spec{Keys: 1, Clusters: 2}, Transport: GRPC})
	stream := xdstest.Dial(t, d.Addr()).Open(xdstest.SotW)
	stream.Subscribe(content.ClusterURL)
	xdstest.Eventually(t, "the request", func() bool { return d.Stats().Requests == 1 })
	stream.Quiet(t, 0)
	if _, err := d.Change(content.Change{Kind: content.One, Type: content.EndpointURL}); err != nil {
		t.Fatal(err)
	}
	frame := stream.Recv(t)
	if frame.TypeURL != content.EndpointURL || len(frame.Resources) != 1 || frame.Nonce != "1e" || frame.Version != "1" {
		t.Errorf("the change is sent as %s", frame)
	}
	stream.Cancel()
	xdstest.Eventually(t, "the end of the stream", func() bool { return d.Stats().Streams == 0 })
	if _, err := d.Change(content.Change{Kind: content.One}); err != nil {
		t.Fatal(err)
	}
	if s := d.Stats(); s.Responses != 1 {
		t.Errorf("%d responses, expected 1", s.Responses)
	}
}

// TestRefused holds who is told that it cannot be served.
func TestRefused(t *testing.T) {
	d, _ := start(t, Config{Spec: spec, Delta: true, Transport: GRPC})
	for key, v := range map[string]xdstest.Variant{"nobody": xdstest.Delta, content.KeyName(2): xdstest.Delta, content.KeyName(0): xdstest.SotW} {
		conn := xdstest.Dial(t, d.Addr())
		conn.Node = xdstest.Node("n", key)
		stream := conn.Open(v)
		stream.Subscribe(content.ClusterURL)
		want := codes.InvalidArgument
		if !v.Delta {
			want = codes.Unimplemented
		}
		if got := stream.ExpectClosed(t); got.Code() != want {
			t.Errorf("%s of %s: %v, expected %v", v, key, got, want)
		}
	}
	for want, cfg := range map[string]Config{
		`transport: got "", expected grpc or tcp`: {Spec: spec},
		"keys: got 0": {Transport: GRPC},
	} {
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", cfg, err, want)
		}
	}
}

// TestMessages holds that messages are what the protobuf library makes of them.
func TestMessages(t *testing.T) {
	_, f := start(t, Config{Spec: spec, Delta: true, Transport: GRPC})
	m := f.keys[1].tables[0].part([]int{2, 0})
	var got discoveryv3.DeltaDiscoveryResponse
	if err := proto.Unmarshal(m.buffers.Materialize(), &got); err != nil {
		t.Fatal(err)
	}
	want := &discoveryv3.DeltaDiscoveryResponse{SystemVersionInfo: "0", TypeUrl: content.ClusterURL, Nonce: "0c"}
	for _, i := range []int{2, 0} {
		want.Resources = append(want.Resources, &discoveryv3.Resource{
			Name: content.Name(content.ClusterURL, 1, i), Version: strings.Repeat("0", 64),
			Resource: spec.Resource(content.ClusterURL, 1, i, f.state.Stamp(content.ClusterURL, i)),
		})
	}
	if !proto.Equal(&got, want) {
		t.Errorf("the message is\n%v\nexpected\n%v", &got, want)
	}
	if m.size() != len(m.buffers.Materialize()) || !bytes.HasSuffix(m.framed, m.buffers.Materialize()) {
		t.Error("the framed message differs")
	}
}
