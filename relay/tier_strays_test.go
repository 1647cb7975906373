package relay_test

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/ops"
)

// TestFleetWithStrays: a node that is no member any more, as it cannot say that it is
// there, goes on serving its clients, and is asked like a member by all who tell of the
// whole tier (K20). Once it has gone it is said that it has, for a while, and nothing of
// its clients.
func TestFleetWithStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red")
		w.populate()
		w.converged()
		all := len(w.fleetOf("a", nil, 100).Clients)
		w.roster.drop("b")
		live := func() (l ops.Live) {
			time.Sleep(2 * time.Second) //nolint:forbidigo // virtual time: the next answer is another
			w.order("a", http.MethodGet, "/api/v1/live", &l)
			return l
		}
		for _, node := range []string{"a", "b", "c"} {
			if got := w.fleetOf(node, nil, 3); len(got.Clients) != all || len(got.Silent) > 0 {
				t.Errorf("node %s tells of %d clients, expected %d; silent: %+v", node, len(got.Clients), all, got.Silent)
			}
		}
		if l := live(); l.Clients.Clients != all || len(l.Nodes) != 3 || !slices.ContainsFunc(l.Nodes, func(n ops.LiveNode) bool { return n.Name == "b" && n.State == ops.NodeIsolated && n.Clients == all/3 }) ||
			!slices.ContainsFunc(l.Warnings, func(w ops.Warning) bool { return w.Node == "b" && w.Level == "error" }) {
			t.Errorf("%+v", l)
		}
		if clients, silent := w.clientStatus("a", ""); len(clients) != all || len(silent) > 0 {
			t.Errorf("client status: %q, silent: %q", clients, silent)
		}
		w.kill("b")
		for range 2 {
			if got := w.fleetOf("a", nil, 100); len(got.Clients) != all*2/3 || len(got.Silent) > 0 {
				t.Errorf("%d clients, silent: %+v", len(got.Clients), got.Silent)
			}
			if l := live(); len(l.Nodes) != 3 || l.Clients.Clients != all*2/3 || !slices.ContainsFunc(l.Nodes, func(n ops.LiveNode) bool { return n.Name == "b" && n.State == ops.NodeDisappeared }) || len(l.Clients.Silent) > 0 {
				t.Errorf("%+v", l)
			}
			if clients, silent := w.clientStatus("a", ""); len(clients) != all*2/3 || len(silent) > 0 {
				t.Errorf("client status: %q, silent: %q", clients, silent)
			}
			time.Sleep(15 * time.Second) //nolint:forbidigo // virtual time: it is asked once more
		}
	})
}
