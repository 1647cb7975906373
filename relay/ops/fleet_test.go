package ops_test

import (
	"testing"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/ops/opstest"
)

// TestManyKeys: what the live page asks of 10,000 clients and 1,000 keys on three nodes costs what looking
// at each once costs, and its answers are pages.
func TestManyKeys(t *testing.T) {
	f := opstest.New(10_000, time.Now())
	f.Keys = 1000
	model := f.Model()
	measure := func(name string, mostBytes int64, mostAllocs float64, ask func()) {
		f.Bytes.Store(0)
		began := time.Now()
		ask()
		took, sent := time.Since(began), f.Bytes.Load()
		allocs := testing.AllocsPerRun(1, ask)
		t.Logf("%s: %v, %d bytes between nodes, %.0f allocations", name, took, sent, allocs)
		if sent > mostBytes || allocs > mostAllocs {
			t.Errorf("%s: %d bytes and %.0f allocations, expected %d and %.0f at most", name, sent, allocs, mostBytes, mostAllocs)
		}
	}
	measure("keys by state", 1_200_000, 250_000, func() {
		page := model.Keys(t.Context(), ops.KeyQuery{Sort: ops.KeysByState, Limit: 50})
		if len(page.Keys) != 50 || page.Total != 1000 || page.Next == "" || page.Keys[0].Nodes[0].States[ops.Nacked] == 0 {
			t.Errorf("%d of %d keys, the worst is %+v", len(page.Keys), page.Total, page.Keys[0])
		}
	})
	measure("keys by name", 100_000, 200_000, func() {
		if page := model.Keys(t.Context(), ops.KeyQuery{Limit: 50}); len(page.Keys) != 50 || page.Next == "" {
			t.Errorf("%d keys", len(page.Keys))
		}
	})
	measure("reasons", 10_000, 200_000, func() {
		all := model.Rejections(t.Context(), ops.RejectionQuery{})
		if all.Clients != 10_000 || all.Rejecting != 200 || len(all.Reasons) != 1 || all.Reasons[0].Clients != 200 {
			t.Errorf("%+v", all)
		}
	})
}
