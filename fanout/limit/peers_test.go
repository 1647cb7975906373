package limit

import (
	"testing"
)

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
