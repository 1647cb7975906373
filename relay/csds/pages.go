package csds

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
)

// pages divides an answer into messages of at most limit bytes, as far as single
// resources allow.
type pages struct {
	limit int
	send  func([]*statusv3.ClientConfig) error

	sent    bool
	size    int
	configs []*statusv3.ClientConfig
}

// fieldCost is more than the tag and length of a message in another take.
const fieldCost = 12

// begin starts the config of a node.
func (p *pages) begin(node *corev3.Node, scope string) {
	c := &statusv3.ClientConfig{Node: node, ClientScope: scope}
	p.size += proto.Size(c) + fieldCost
	p.configs = append(p.configs, c)
}

// add adds a resource to the config that was begun last, which is continued in
// another message if there is no room for it.
func (p *pages) add(g *statusv3.ClientConfig_GenericXdsConfig) error {
	n := proto.Size(g) + fieldCost
	last := p.configs[len(p.configs)-1]
	if p.size+n > p.limit && (len(p.configs) > 1 || len(last.GetGenericXdsConfigs()) > 0) {
		if err := p.flush(false); err != nil {
			return err
		}
		p.begin(last.GetNode(), last.GetClientScope())
		last = p.configs[0]
	}
	last.GenericXdsConfigs = append(last.GenericXdsConfigs, g)
	p.size += n
	return nil
}

// flush sends what there is; at the end, even if that is nothing, unless
// something was sent before.
func (p *pages) flush(end bool) error {
	if len(p.configs) == 0 && (p.sent || !end) {
		return nil
	}
	configs := p.configs
	p.sent, p.size, p.configs = true, 0, nil
	return p.send(configs)
}
