package csds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/protobuf/proto"
)

// TestPages: whatever the limit, all is sent once and in order, each part under
// its node and scope, in messages that are no larger than they have to be.
func TestPages(t *testing.T) {
	for _, limit := range []int{1, 100, 500, 5000, 1 << 20} {
		var got, want []string
		p := pages{limit: limit, send: func(configs []*statusv3.ClientConfig) error {
			n, resources := proto.Size(&statusv3.ClientStatusResponse{Config: configs}), 0
			for _, c := range configs {
				if c.GetClientScope() != "of "+c.GetNode().GetId() {
					t.Errorf("limit %d: node %q with scope %q", limit, c.GetNode().GetId(), c.GetClientScope())
				}
				for _, g := range c.GetGenericXdsConfigs() {
					got = append(got, c.GetNode().GetId()+"/"+g.GetName())
				}
				resources += len(c.GetGenericXdsConfigs())
			}
			if n > limit && resources > 1 {
				t.Errorf("limit %d: %d bytes with %d resources", limit, n, resources)
			}
			return nil
		}}
		for client, resources := range []int{0, 1, 7, 100, 3} {
			id := fmt.Sprint("c", client)
			p.begin(&corev3.Node{Id: id}, "of "+id)
			for r := range resources {
				name := fmt.Sprint("r", r, strings.Repeat("x", 20))
				want = append(want, id+"/"+name)
				if err := p.add(&statusv3.ClientConfig_GenericXdsConfig{Name: name}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.flush(true); err != nil || !slices.Equal(got, want) {
			t.Errorf("limit %d: %d of %d resources, error %v", limit, len(got), len(want), err)
		}
	}
}

// TestPagesAtTheEnd: there is always one message, and no empty one after others.
func TestPagesAtTheEnd(t *testing.T) {
	sent := 0
	p := pages{limit: 1, send: func([]*statusv3.ClientConfig) error { sent++; return nil }}
	if err := p.flush(true); err != nil || sent != 1 {
		t.Fatalf("%d messages, error %v", sent, err)
	}
	if err := p.flush(true); err != nil || sent != 1 {
		t.Fatalf("%d messages after all was sent, error %v", sent, err)
	}
	gone := errors.New("gone")
	p = pages{limit: 1, send: func([]*statusv3.ClientConfig) error { return gone }}
	p.begin(&corev3.Node{}, "")
	_ = p.add(&statusv3.ClientConfig_GenericXdsConfig{Name: "a"})
	if err := p.add(&statusv3.ClientConfig_GenericXdsConfig{Name: "b"}); !errors.Is(err, gone) {
		t.Fatalf("error %v", err)
	}
}
