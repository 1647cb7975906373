package shard_test

import (
	"testing"
	"time"

	"xdsrelay/shard"
)

// TestChanged: a change of ownership, or of the address of a node, closes Changed; numbers of
// clients and how a node receives hints do not, although View has them.
func TestChanged(t *testing.T) {
	began := time.Now()
	is := shard.Member{Name: "a", Peer: "a:1", Incarnation: "1", Version: "v", Since: began}
	c := shard.NewCurrent(is)
	for _, step := range []struct {
		what   string
		news   bool
		change func(*shard.Member)
	}{
		{"nothing", false, func(*shard.Member) {}},
		{"clients", false, func(m *shard.Member) { m.Clients = 7 }},
		{"sharded channels", false, func(m *shard.Member) { m.Sharded = true }},
		{"cut off", true, func(m *shard.Member) { m.Cut = true }},
		{"cold", true, func(m *shard.Member) { m.Cold = true }},
		{"draining", true, func(m *shard.Member) { m.Draining = true }},
		{"elsewhere", true, func(m *shard.Member) { m.Peer = "a:2" }},
		{"another life", true, func(m *shard.Member) { m.Incarnation = "2" }},
		{"later", true, func(m *shard.Member) { m.Since = began.Add(time.Second) }},
		{"the same time elsewhere", false, func(m *shard.Member) { m.Since = m.Since.UTC().Round(0) }},
	} {
		changed := c.Changed()
		step.change(&is)
		c.Set([]shard.Member{is})
		news := false
		select {
		case <-changed:
			news = true
		default:
		}
		if got := c.View().Members()[0]; news != step.news || got.Clients != is.Clients || got.Status != is.Status {
			t.Errorf("%s: news: %t; it is %+v", step.what, news, got)
		}
	}
}
