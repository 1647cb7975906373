package redistest

import (
	"context"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"xdsrelay/relay/xdstest"
)

// Proxy is the way to a server, or to anything else that listens, and can be bad.
// It ends with the test.
type Proxy struct {
	// Fixed after construction.
	t     xdstest.TB
	proxy *toxiproxy.Proxy
}

// StartProxy starts a proxy to an address.
func StartProxy(t xdstest.TB, to string) *Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{t: t, proxy: toxiproxy.NewProxy(server, "proxy", "127.0.0.1:0", to)}
	if err := p.proxy.Start(); err != nil {
		t.Fatalf("proxy to %s: %v", to, err)
	}
	t.Cleanup(p.proxy.Stop)
	return p
}

// Leaks leaves the goroutines of proxies out of a search for goroutines that stay: where a
// connection breaks while something is on its way, nobody takes that any more.
func Leaks() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
	}
}

// Addr is where it listens, as host:port. It stays the same.
func (p *Proxy) Addr() string { return p.proxy.Listen }

// Slow makes each answer come so much later, on connections that there are, too.
// 0 ends that.
func (p *Proxy) Slow(by time.Duration) {
	p.t.Helper()
	p.set("slow", by > 0, fmt.Sprintf(`{"name":"slow","type":"latency","stream":"downstream","attributes":{"latency":%d}}`, by.Milliseconds()))
}

// Cut makes it swallow all that comes from the other side, or ends that.
func (p *Proxy) Cut(on bool) {
	p.t.Helper()
	p.set("cut", on, `{"name":"cut","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)
}

// set adds what is bad, or takes it away.
func (p *Proxy) set(name string, on bool, toxic string) {
	p.t.Helper()
	if p.proxy.Toxics.GetToxic(name) != nil {
		if err := p.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
			p.t.Fatalf("proxy %s: %v", p.Addr(), err)
		}
	}
	if !on {
		return
	}
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Fatalf("proxy %s: %s: %v", p.Addr(), toxic, err)
	}
}
