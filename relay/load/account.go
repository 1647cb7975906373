package load

import (
	"context"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/lockorder"
)

// account is what the clients of one key report.
type account struct {
	// Fixed after construction.
	owner *Collector
	key   aggregation.Key
	node  *corev3.Node

	// Guarded by owner.mu.
	members int
	peers   int // of these, other nodes
	// peersChanged is closed when peers changes; nil while nobody waits for that.
	peersChanged chan struct{}
	end          context.CancelCauseFunc // of the report; nil while there is none
	done         chan struct{}           // closed when the last report is over
	retire       *time.Timer             // see Collector.leave

	mu lockorder.Mutex[lockorder.LoadAccount]
	// Guarded by mu.
	clients map[*Client]struct{}
	terms   *Terms // nil before the origin has said any
	refusal error  // the origin takes no reports
	sums    sums
	taken   time.Time // when the sums were taken last
}

func newAccount(c *Collector, key aggregation.Key, node *corev3.Node) *account {
	return &account{
		owner: c, key: key, node: node, clients: make(map[*Client]struct{}),
		sums: sums{clusters: make(map[clusterID]*cluster), room: c.cfg.MaxBytes, budget: &c.budget},
	}
}

// set changes what the clients are to know, and tells them.
func (a *account) set(terms *Terms, refusal error) {
	a.mu.Lock()
	a.terms, a.refusal = terms, refusal
	clients := make([]*Client, 0, len(a.clients))
	for c := range a.clients {
		clients = append(clients, c)
	}
	a.mu.Unlock()
	for _, c := range clients {
		c.news()
	}
}

// Client is one client's part of an account. Its methods are safe for concurrent
// use.
type Client struct {
	account *account // fixed
	news    func()   // fixed
	peer    bool     // another node; fixed

	// Guarded by account.mu.
	held    []gauge // what the last report said
	left    bool
	charged int64  // bytes that live as long as what they are for is reported
	extra   int64  // bytes that go when the sums are taken, and
	period  uint64 // how often they were taken before
}

// charge books n bytes more; fewer where n is negative. Nobody is charged on a nil Client.
func (c *Client) charge(n int64) {
	if c != nil {
		c.charged += n
	}
}

// chargeExtra books n bytes until the sums are taken the next time.
func (c *Client) chargeExtra(period uint64, n int64) {
	if c == nil {
		return
	}
	if c.period != period {
		c.period, c.extra = period, 0
	}
	c.extra += n
}

// Cost is roughly how many bytes the account holds because of the client.
func (c *Client) Cost() int {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()
	n := c.charged + int64(len(c.held))*gaugeCost
	if c.period == c.account.sums.takes {
		n += c.extra
	}
	return int(n)
}

func (a *account) newClient(news func()) *Client {
	c := &Client{account: a, news: news}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clients[c] = struct{}{}
	return c
}

// Terms returns what the origin wants to be told, nil as long as that is not
// known. Equal terms are the same value. The error says that the origin takes no
// reports.
func (c *Client) Terms() (*Terms, error) {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()
	return c.account.terms, c.account.refusal
}

// Report adds a report, which has passed [Check] and is not used any more. It
// returns how many things were left out, because the account has no more room
// for what is new, or because they cannot be added up. What the terms do not ask
// for is not one of them.
func (c *Client) Report(stats []*endpointv3.ClusterStats) (leftOut int) {
	a := c.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, joined := a.clients[c]; !joined || a.refusal != nil {
		return 0
	}
	a.sums.release(c.held)
	c.held, leftOut = a.sums.report(c, stats, time.Now(), a.terms)
	return leftOut
}

// Leave ends the client's part. What it has reported stays; what was in progress
// is not any more.
func (c *Client) Leave() {
	a := c.account
	a.mu.Lock()
	a.sums.release(c.held)
	c.held, c.left = nil, true
	delete(a.clients, c)
	a.mu.Unlock()
	if c.peer {
		a.addPeers(-1)
	}
	a.owner.leave(a)
}
