package load

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"xdsrelay/relay/aggregation"
)

// JoinPeer is [Collector.Join] for another node of the tier, which adds up what its
// clients of a key report. The account knows how many of them there are; see
// [Outlet.Peers].
func (c *Collector) JoinPeer(key aggregation.Key, node *corev3.Node, news func()) *Client {
	client := c.Join(key, node, news)
	client.peer = true
	client.account.addPeers(1)
	return client
}

func (a *account) addPeers(n int) {
	a.owner.mu.Lock()
	defer a.owner.mu.Unlock()
	a.peers += n
	if a.peersChanged != nil {
		close(a.peersChanged)
		a.peersChanged = nil
	}
}

// Peers is how many streams of other nodes add to the account. changed is closed when
// that is another number.
func (o *Outlet) Peers() (n int, changed <-chan struct{}) {
	a := o.account
	a.owner.mu.Lock()
	defer a.owner.mu.Unlock()
	if a.peersChanged == nil {
		a.peersChanged = make(chan struct{})
	}
	return a.peers, a.peersChanged
}
