package shard_test

import (
	"encoding/json"
	"testing"
	"time"

	"xdsrelay/shard"
)

// TestMemberText: nodes of other versions read and write the text of a member, in Redis and from node to
// node, so it does not change. Each line was written by a node.
func TestMemberText(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]shard.Member{
		`{"name":"a","peer":"a:1","clients":0}`: {Name: "a", Peer: "a:1"},
		`{"name":"a","peer":"a:1","incarnation":"i","version":"v1","since":"2026-01-02T03:04:05Z","stamps":true,"clients":7,"draining":true,"cut":true,"cold":true,"sharded":true,"rollouts":true}`: {
			Name: "a", Peer: "a:1", Incarnation: "i", Version: "v1", Since: since, Stamps: true,
			Status: shard.Status{Clients: 7, Draining: true, Cut: true, Cold: true, Sharded: true, Rollouts: true},
		},
		`{"name":"a","peer":"a:1","stamps":true,"clients":3,"sharded":true}`: {Name: "a", Peer: "a:1", Stamps: true, Status: shard.Status{Clients: 3, Sharded: true}},
		`{"name":"a","peer":"a:1","clients":3,"cut":true,"cold":true}`:       {Name: "a", Peer: "a:1", Status: shard.Status{Clients: 3, Cut: true, Cold: true}},
	} {
		written, err := json.Marshal(want)
		if err != nil || string(written) != text {
			t.Errorf("%s is written as %s, %v", text, written, err)
		}
		var read shard.Member
		if err := json.Unmarshal([]byte(text), &read); err != nil || read != want {
			t.Errorf("%s is read as %+v, %v", text, read, err)
		}
		status, err := json.Marshal(want.Status)
		if err != nil {
			t.Fatal(err)
		}
		var of shard.Status
		if err := json.Unmarshal(status, &of); err != nil || of != want.Status {
			t.Errorf("the status of %s is read as %+v, %v", text, of, err)
		}
	}
	var newer shard.Member // what a later version adds is ignored
	if err := json.Unmarshal([]byte(`{"name":"a","peer":"a:1","clients":1,"later":true}`), &newer); err != nil || newer.Clients != 1 {
		t.Errorf("a newer member is read as %+v, %v", newer, err)
	}
}
