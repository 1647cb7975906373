package robust

import (
	"context"
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"xdsrelay/relay/xdstest"
)

// proxy stands between a node and something that it needs.
type proxy struct {
	t      xdstest.TB
	proxy  *toxiproxy.Proxy
	toxics []string // names of those that are on
}

// newProxy listens at an address, and leads to another one.
func newProxy(t xdstest.TB, name, listen, upstream string) *proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &proxy{t: t, proxy: toxiproxy.NewProxy(server, name, listen, upstream)}
	p.heal()
	t.Cleanup(p.proxy.Stop)
	return p
}

func (p *proxy) addr() string { return p.proxy.Listen }

// cut ends all connections and refuses new ones.
func (p *proxy) cut() { p.proxy.Stop() }

// hang lets nothing through, in connections that stay.
func (p *proxy) hang() {
	p.add("timeout", "upstream", `{"timeout":0}`)
	p.add("timeout", "downstream", `{"timeout":0}`)
}

// slow makes each answer late.
func (p *proxy) slow(by time.Duration) {
	p.add("latency", "downstream", fmt.Sprintf(`{"latency":%d}`, by.Milliseconds()))
}

func (p *proxy) add(kind, stream, attributes string) {
	name := kind + "-" + stream
	text := fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":%s}`, name, kind, stream, attributes)
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		p.t.Fatalf("proxy %s: %s: %v", p.proxy.Name, text, err)
	}
	p.toxics = append(p.toxics, name)
}

// heal ends whatever there is.
func (p *proxy) heal() {
	for _, name := range p.toxics {
		if err := p.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
			p.t.Fatalf("proxy %s: remove %s: %v", p.proxy.Name, name, err)
		}
	}
	p.toxics = nil
	if !p.proxy.Enabled {
		if err := p.proxy.Start(); err != nil {
			p.t.Fatalf("proxy %s at %s: %v", p.proxy.Name, p.proxy.Listen, err)
		}
	}
}
