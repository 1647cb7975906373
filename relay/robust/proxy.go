package robust

import (
	"time"

	"xdsrelay/relay/xdstest"
)

// proxy is the network between a node and something that it needs.
type proxy struct {
	t       xdstest.TB
	network *xdstest.Network
}

// newProxy listens at an address of its own and forwards to the other one.
func newProxy(t xdstest.TB, to string) *proxy {
	t.Helper()
	return &proxy{t: t, network: xdstest.NewNetwork(t, to)}
}

func (p *proxy) addr() string { return p.network.Addr() }

// cut ends all connections and refuses new ones.
func (p *proxy) cut() {
	p.network.Refuse()
	p.network.Cut()
}

// hang forwards nothing, on connections that stay open.
func (p *proxy) hang() { p.network.Stall(xdstest.BothWays) }

// slow delays each answer by this time: half of it on either way.
func (p *proxy) slow(by time.Duration) { p.network.Delay(by / 2) }

// heal ends all faults.
func (p *proxy) heal() {
	if err := p.network.Heal(); err != nil {
		p.t.Fatalf("proxy at %s: %v", p.addr(), err)
	}
}
