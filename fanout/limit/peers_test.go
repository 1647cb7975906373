package limit

import (
	"testing"
)

// TestConnectionsFitTheMemory: with a memory limit, the node accepts only the connections that it
// has room for, a quarter of them for other nodes, whatever is configured. Without a memory limit,
// or if limits.max_memory_percent is 0, only the configured limits apply.
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
			l.measurement.Store(&measurement{usage: usage{limit: test.limit}})
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

// TestPeersOfOneSource: connections from one address that are not authenticated as a node of the
// tier cannot use up those of all others, and release what they had.
func TestPeersOfOneSource(t *testing.T) {
	l, err := New(Values{PeerConnections: 5000}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, node := SourceAt("192.0.2.1:1"), SourceAt("192.0.2.2:1")
	for range 500 {
		if err := l.connectPeer(client); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.connectPeer(client); err == nil {
		t.Error("a source has more than a tenth of all connections")
	}
	if err := l.connectPeer(node); err != nil {
		t.Errorf("another source: %v", err)
	}
	l.disconnectPeer(node)
	for range 500 {
		l.disconnectPeer(client)
	}
	if err := l.connectPeer(client); err != nil {
		t.Errorf("once all were given back: %v", err)
	}
	l.disconnectPeer(client)
	if l.peerConnections != 0 || len(l.peerSources) != 0 {
		t.Errorf("%d connections of %d sources are left", l.peerConnections, len(l.peerSources))
	}
}
