package relay_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/xdstest"
)

// TestDifferentialSeesDifferences: the comparison sees what a wrong relay would
// do, also where go-control-plane may do so. The relay of this test is
// go-control-plane itself, with clients that lose or miss something.
func TestDifferentialSeesDifferences(t *testing.T) {
	const soon = 100 * time.Millisecond
	a := "a"
	for what, c := range map[string]struct {
		variant xdstest.Variant
		spoil   func(t *testing.T, o *testOrigin, p *pair)
		want    string
	}{
		"nothing": {xdstest.SotW, func(*testing.T, *testOrigin, *pair) {}, ""},
		"a resource that is lost": {xdstest.SotW, func(t *testing.T, o *testOrigin, p *pair) {
			o.loses.Store(&a)
			p.subscribe(xdstest.EndpointType, "a")
		}, `ClusterLoadAssignment "a" is right directly, missing through the relay`},
		"a change that is lost": {xdstest.Delta, func(t *testing.T, o *testOrigin, p *pair) {
			o.loses.Store(&a)
			o.change(t, xdstest.ClusterType, []string{"a"}, nil, 7, false)
		}, `Cluster "a" is right directly, outdated through the relay`},
		"a removal that is missed": {xdstest.Delta, func(t *testing.T, o *testOrigin, p *pair) {
			p.relayed.Disconnect()
			p.relayed.WaitFor(t, "the end", func() bool { return !p.relayed.Connected() })
			o.change(t, xdstest.ClusterType, nil, []string{"a"}, 7, false)
		}, `Cluster "a" is right directly, not gone through the relay`},
		"what go-control-plane may lose": {xdstest.Delta, func(t *testing.T, o *testOrigin, p *pair) {
			p.unsubscribe(xdstest.ClusterType, "*")
			p.subscribe(xdstest.ClusterType, "a")
		}, `Cluster "a" is right directly, missing through the relay`},
		"something rejected": {xdstest.SotW, func(t *testing.T, o *testOrigin, p *pair) {
			o.change(t, xdstest.ClusterType, []string{"b"}, nil, 8, false)
			if err := settled([]*pair{p}, xdstest.Patience); err != nil {
				t.Fatal(err)
			}
			b := o.state[xdstest.ClusterType]["b"]
			b.bad = true // after they have taken it
			o.state[xdstest.ClusterType]["b"] = b
		}, `Cluster "b" is held though it was rejected directly, held though it was rejected through the relay`},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newTestOrigin(t, xdstest.NewMemory(), true, false)
				o.change(t, xdstest.ClusterType, []string{"a", "b"}, nil, 1, false)
				o.change(t, xdstest.EndpointType, []string{"a"}, nil, 1, false)
				p := newPair(t, o, o.Addr(), "client", c.variant, false)
				p.subscribe(xdstest.ClusterType, "*")
				settle(t, []*pair{p})
				c.spoil(t, o, p)
				patience := soon
				if c.want == "" {
					patience = xdstest.Patience
				}
				err := settled([]*pair{p}, patience)
				switch {
				case c.want == "" && err != nil:
					t.Errorf("sees a difference where there is none: %v", err)
				case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
					t.Errorf("sees %v, expected that %s", err, c.want)
				}
			})
		})
	}
}
