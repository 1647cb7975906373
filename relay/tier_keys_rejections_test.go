package relay_test

import (
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// TestRejectionReasons: every node gives the same reasons of rejections, each with its keys, versions, nodes
// and resources, and the clients of a reason are found. A node that does not answer is named.
func TestRejectionReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red", "blue")
		w.populate()
		w.converged()
		w.awkward("b", "red")
		w.awkward("c", "red")
		ask := func(node string, into any, path string, query url.Values) int {
			code, _ := w.order(node, http.MethodGet, "/api/v1/"+path+"?"+query.Encode(), into)
			return code
		}
		reasons := func(node string, query url.Values) (all ops.Rejections) {
			if code := ask(node, &all, "rejections", query); code != http.StatusOK {
				t.Errorf("node %s answers %d", node, code)
			}
			return all
		}
		xdstest.Eventually(t, "the rejections", func() bool { return reasons("a", nil).Rejecting == 2 })
		all := reasons("a", nil)
		for _, node := range w.names {
			if other := reasons(node, nil); w.text(other) != w.text(all) {
				t.Errorf("node %s says %+v, and node a %+v", node, other, all)
			}
		}
		if len(all.Reasons) != 1 {
			t.Fatalf("reasons: %s", w.text(all))
		}
		r := all.Reasons[0]
		if r.Message != "not to my taste" || r.Name != "CDS" || r.Clients != 2 || len(r.Keys) != 1 || r.Keys[0] != (ops.ReasonCount{Name: "red", Clients: 2}) || len(r.Nodes) != 2 || len(r.Versions) == 0 {
			t.Errorf("the reason is %s", w.text(r))
		}
		if len(r.Resources) == 0 || r.Resources[0].Key != "red" || r.Resources[0].Named || r.Resources[0].Change == "" {
			t.Errorf("its resources are %+v", r.Resources)
		}
		for _, none := range []url.Values{{"type": {"EDS"}}, {"reason": {"other"}}, {"key": {"blue"}}} {
			if some := reasons("a", none); len(some.Reasons) != 0 || some.Rejecting != 0 || some.Clients != all.Clients {
				t.Errorf("%v: %s", none, w.text(some))
			}
		}
		for _, sort := range []string{"", "since"} {
			var page ops.Page
			ask("c", &page, "clients", url.Values{"reason": {"NOT to my"}, "type": {"CDS"}, "sort": {sort}})
			if len(page.Clients) != 2 || page.Clients[0].State != ops.Nacked {
				t.Errorf("clients of the reason: %s", w.text(page))
			}
		}
		var keys ops.Keys
		ask("b", &keys, "keys", url.Values{"sort": {"state"}, "limit": {"1"}})
		if len(keys.Keys) != 1 || keys.Keys[0].Key != "red" || keys.Next == "" || keys.Total < 2 || len(keys.Keys[0].Nodes) != 3 {
			t.Errorf("the worst key: %s", w.text(keys))
		}
		var rest ops.Keys
		if ask("c", &rest, "keys", url.Values{"sort": {"state"}, "page": {keys.Next}}); len(rest.Keys) != keys.Total-1 || rest.Keys[0].Key == "red" {
			t.Errorf("behind it: %s", w.text(rest))
		}
		var some ops.Keys
		if ask("a", &some, "keys", url.Values{"state": {"nacked"}, "owner": {keys.Keys[0].Owner}}); len(some.Keys) != 1 || some.Total != 1 || some.Keys[0].Key != "red" {
			t.Errorf("keys with rejections: %s", w.text(some))
		}
		if code := ask("a", &some, "keys", url.Values{"sort": {"clients"}, "page": {keys.Next}}); code != http.StatusBadRequest {
			t.Errorf("a page of another order: %d", code)
		}
		var live ops.Live
		ask("a", &live, "live", nil)
		followed := 0
		for _, n := range live.Nodes {
			for _, keys := range n.Keys.Followed {
				followed += keys
			}
			if len(n.Keys.Followed) > 0 && n.Keys.Follower == 0 {
				t.Errorf("node %s follows %v", n.Name, n.Keys)
			}
		}
		if followed == 0 {
			t.Errorf("no node follows another: %s", w.text(live.Nodes))
		}
		if len(live.Warnings) == 0 || live.Warnings[0].Runbook == "" {
			t.Errorf("warnings without an entry of the runbook: %s", w.text(live.Warnings))
		}
	})
}
