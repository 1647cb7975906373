package limit

import (
	"testing"
)

// TestConnectionsFitTheMemory: with a memory limit there are only as many connections as it
// has room for, of other nodes a quarter of that, whatever is configured; without one, or if
// nothing is to be done about memory, only the configured limits count.
func TestConnectionsFitTheMemory(t *testing.T) {
	for _, test := range []struct {
		name                  string
		limit                 uint64
		values                Values
		connections, ofOthers int
	}{
		{"a limit", 40 * ConnectionMemory, Values{MemoryPercent: 80}, 40, 10},
		{"lower limits are configured", 40 * ConnectionMemory, Values{MemoryPercent: 80, Connections: 20, PeerConnections: 5}, 20, 5},
		{"higher limits are configured", 40 * ConnectionMemory, Values{MemoryPercent: 80, Connections: 90, PeerConnections: 90}, 40, 10},
		{"no limit", 0, Values{MemoryPercent: 80, Connections: 90, PeerConnections: 90}, 90, 90},
		{"nothing to be done", 40 * ConnectionMemory, Values{Connections: 90, PeerConnections: 90}, 90, 90},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := New(test.values, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			l.gate.Store(&gate{usage: usage{limit: test.limit}})
			most := func(connect func() error) (n int) {
				for connect() == nil {
					n++
				}
				return n
			}
			from := SourceAt("192.0.2.1:1")
			if n := most(func() error { _, err := l.connect(from); return err }); n != test.connections {
				t.Errorf("%d connections of clients, expected %d", n, test.connections)
			}
			if n := most(func() error { return l.connectPeer(from) }); n != test.ofOthers {
				t.Errorf("%d connections of other nodes, expected %d", n, test.ofOthers)
			}
		})
	}
}

// TestPeersOfOneSource: who has not said yet that it is a node of the tier cannot take the
// connections of all others from one address, and gives back what it had.
func TestPeersOfOneSource(t *testing.T) {
	l, err := New(Values{PeerConnections: 5000}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, node := SourceAt("192.0.2.1:1"), SourceAt("192.0.2.2:1")
	for range 500 {
		if err := l.connectPeer(stranger); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.connectPeer(stranger); err == nil {
		t.Error("a source has more than a tenth of all connections")
	}
	if err := l.connectPeer(node); err != nil {
		t.Errorf("another source: %v", err)
	}
	l.disconnectPeer(node)
	for range 500 {
		l.disconnectPeer(stranger)
	}
	if err := l.connectPeer(stranger); err != nil {
		t.Errorf("once all were given back: %v", err)
	}
	l.disconnectPeer(stranger)
	if l.peerConnections != 0 || len(l.peerSources) != 0 {
		t.Errorf("%d connections of %d sources are left", l.peerConnections, len(l.peerSources))
	}
}
