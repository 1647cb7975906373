package origin

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/relay/xdstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var spec = content.Spec{Keys: 2, Clusters: 3, Listeners: 2, Size: 300}

func start(t *testing.T, kind Kind) *drive.Driver {
	t.Helper()
	d, _ := startOrigin(t, kind)
	return d
}

func startOrigin(t *testing.T, kind Kind) (*drive.Driver, *Origin) {
	t.Helper()
	o, err := New(Config{Spec: spec, Cache: kind})
	if err != nil {
		t.Fatal(err)
	}
	d, err := drive.New(o, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, o
}

// clients are clients of a key that want everything: one for all types over
// ADS, or one for each.
func clients(t *testing.T, addr string, k int, delta, ads bool) (of map[string]*xdstest.Auto, all []*xdstest.Auto) {
	t.Helper()
	of = make(map[string]*xdstest.Auto)
	for i, typeURL := range spec.Types() {
		v := xdstest.Variant{Delta: delta, Service: typeURL}
		if ads {
			v.Service = ""
		}
		if i == 0 || !ads {
			all = append(all, xdstest.StartAuto(t, xdstest.AutoConfig{
				Addr: addr, Variant: v, Node: xdstest.Node(content.NodeID(k), content.KeyName(k)),
			}))
		}
		of[typeURL] = all[len(all)-1]
		var names []string // all, by wildcard
		if typeURL == content.EndpointURL || typeURL == content.RouteURL {
			names = spec.Names(typeURL, k)
		}
		of[typeURL].Subscribe(typeURL, names...)
	}
	return of, all
}

// holds waits until a client holds just what a state says.
func holds(t *testing.T, client *xdstest.Auto, typeURL string, k int, state *content.State) {
	t.Helper()
	client.WaitFor(t, fmt.Sprintf("revision %d", state.Revision().Revision), func() bool {
		held := client.Held(typeURL)
		for i, name := range spec.Names(typeURL, k) {
			want := spec.Resource(typeURL, k, i, state.Stamp(typeURL, i))
			if !bytes.Contains(held[name].Body, want.GetValue()) {
				return false
			}
		}
		return len(held) == spec.Count(typeURL)
	})
}

// TestOrigin holds, for each cache and each way to speak, that clients get what
// is in their key and what changes there, that they come back after a time of
// being away, and that what is counted is what they have seen.
func TestOrigin(t *testing.T) {
	for _, kind := range []Kind{Snapshot, Linear} {
		for _, delta := range []bool{false, true} {
			for _, ads := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,delta=%v,ads=%v", kind, delta, ads), func(t *testing.T) {
					testOrigin(t, kind, delta, ads)
				})
			}
		}
	}
}

func testOrigin(t *testing.T, kind Kind, delta, ads bool) {
	d, o := startOrigin(t, kind)
	var byType []map[string]*xdstest.Auto
	var all []*xdstest.Auto
	for k := range spec.Keys {
		of, autos := clients(t, d.Addr(), k, delta, ads)
		byType, all = append(byType, of), append(all, autos...)
	}
	everywhere := func() {
		t.Helper()
		for k, of := range byType {
			for typeURL, client := range of {
				holds(t, client, typeURL, k, o.state)
			}
		}
	}
	everywhere()
	for _, c := range []content.Change{
		{Kind: content.One},
		{Kind: content.Burst, Resources: 2, Type: content.EndpointURL},
		{Kind: content.Full},
	} {
		if _, err := d.Change(c); err != nil {
			t.Fatal(err)
		}
		everywhere()
	}
	var want int64
	for _, client := range all {
		client.CheckViolations(t)
		want += int64(client.Stats().Frames)
	}
	var stats drive.Stats
	xdstest.Eventually(t, "all acknowledgements", func() bool {
		stats = d.Stats()
		return stats.Responses == want && stats.Requests >= want+int64(spec.Keys*len(spec.Types()))
	})
	if stats.Nacks != 0 || stats.Revision != 3 || stats.Streams != int64(len(all)) || stats.StreamsTotal != stats.Streams {
		t.Errorf("%+v, expected %d streams, revision 3 and no NACKs", stats, len(all))
	}
	for _, typeURL := range spec.Types() {
		n := stats.ByType[typeURL]
		if n.Responses < int64(2*spec.Keys) || n.Requests < n.Responses || n.BytesOut < n.Responses*int64(content.StampSize) || n.BytesIn == 0 {
			t.Errorf("%s: %+v", typeURL, n)
		}
	}

	if err := d.Down(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Change(content.Change{Kind: content.One}); err != nil {
		t.Fatal(err)
	}
	for _, client := range all {
		client.WaitFor(t, "the end of the stream", func() bool { return !client.Connected() })
	}
	if s := d.Stats(); s.Streams != 0 {
		t.Errorf("%d streams while it is down", s.Streams)
	}
	if err := d.Up(); err != nil {
		t.Fatal(err)
	}
	everywhere()
	xdstest.Eventually(t, "all streams to come back", func() bool {
		s := d.Stats()
		return s.Streams == int64(len(all)) && s.StreamsTotal == int64(2*len(all))
	})
}

// TestNack holds that a NACK is counted as one.
func TestNack(t *testing.T) {
	for _, v := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		d := start(t, Linear)
		conn := xdstest.Dial(t, d.Addr())
		conn.Node = xdstest.Node("n", content.KeyName(1))
		stream := conn.Open(v)
		stream.Subscribe(content.ClusterURL)
		stream.Nack(stream.RecvType(t, content.ClusterURL), "no")
		xdstest.Eventually(t, "the NACK", func() bool { return d.Stats().Nacks == 1 })
		if n := d.Stats().ByType[content.ClusterURL]; n.Nacks != 1 || n.Requests != 2 {
			t.Errorf("%s: %+v, expected 2 requests, 1 of them a NACK", v, n)
		}
	}
}

// TestOwnKeyOnly holds that a client gets nothing without a key that there is.
func TestOwnKeyOnly(t *testing.T) {
	for kind, closed := range map[Kind]bool{Linear: true, Snapshot: false} {
		conn := xdstest.Dial(t, start(t, kind).Addr())
		conn.Node = xdstest.Node("n", content.KeyName(2))
		stream := conn.Open(xdstest.Delta)
		stream.Subscribe(content.ClusterURL)
		if closed {
			stream.ExpectClosed(t)
		} else {
			stream.Quiet(t, 0)
		}
	}
}

// TestConfig holds that what cannot be is refused.
func TestConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		`cache: got "", expected snapshot or linear`: {Spec: spec},
		"keys: got 0": {Cache: Linear},
	} {
		if _, err := New(cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: %v, expected %s", cfg, err, want)
		}
	}
}
