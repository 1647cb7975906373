package main

import (
	"context"
	"net"
	"testing"
	"time"

	"xdsrelay/relay"
	"xdsrelay/relay/config"
	"xdsrelay/relay/xdstest"
)

// TestBehindARelay: clients of one cluster follow the example through a relay that is
// configured by nothing but its address, in both variants.
func TestBehindARelay(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	next := make(chan time.Time)
	go func() { ended <- serve(ctx, l, next) }()

	cfg := config.Default()
	cfg.Upstream.Addresses = []string{l.Addr().String()}
	cfg.Listener.Address, cfg.Admin.Address = "127.0.0.1:0", ""
	cfg.Drain.Duration, cfg.Drain.Grace = 0, 0
	node, err := relay.New(cfg, relay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- node.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	var clients []*xdstest.Auto
	first := make(map[*xdstest.Auto]string)
	for i, variant := range []xdstest.Variant{xdstest.SotW, xdstest.Delta} {
		a := xdstest.StartAuto(t, xdstest.AutoConfig{Addr: node.Addr(), Variant: variant, Node: xdstest.Node([]string{"web-1", "web-2"}[i], "web")})
		a.Subscribe(xdstest.ClusterType)
		a.WaitHeld(t, xdstest.ClusterType, "shop")
		first[a] = a.Version(xdstest.ClusterType)
		clients = append(clients, a)
	}
	next <- time.Now()
	for _, a := range clients {
		a.WaitFor(t, "the second snapshot", func() bool { return a.Version(xdstest.ClusterType) != first[a] })
	}
}
