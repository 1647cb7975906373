package relay_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"xdsrelay/fanout"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// who asks a node who has resources.
func (w *tierWorld) who(node string, query url.Values) (who ops.Who, code int) {
	w.t.Helper()
	code, _ = w.order(node, http.MethodGet, "/api/v1/resource?"+query.Encode(), &who)
	return who, code
}

func (w *tierWorld) text(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

// TestWho: every node gives the same answer about a resource: which keys serve it, which clients subscribe to it, and why one
// does not have its current version. Pages have all clients once, and a node that does not answer is named.
func TestWho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red", "blue")
		w.populate()
		w.converged()
		w.awkward("b", "red")
		name := "red-a"
		query := func(more ...string) url.Values {
			v := url.Values{"resource": {name}, "type": {"CDS"}}
			for i := 0; i < len(more); i += 2 {
				v.Set(more[i], more[i+1])
			}
			return v
		}
		xdstest.Eventually(t, "the rejection", func() bool {
			who, _ := w.who("c", query())
			return len(who.Resources) == 1 && who.Resources[0].States[ops.Nacked] == 1 && who.Resources[0].States[ops.Stale] == 1
		})
		all, _ := w.who("a", query())
		for _, node := range w.names {
			if who, _ := w.who(node, query()); w.text(who) != w.text(all) {
				t.Errorf("node %s says %+v, and node a %+v", node, who, all)
			}
		}
		if len(all.Resources[0].Versions) != 1 || all.Resources[0].Versions[0].Keys != 1 || len(all.Copies) != 3 || all.Copies[0].Owner == "" {
			t.Errorf("%+v on %+v", all.Resources, all.Copies)
		}
		worst, late, last := all.Clients[0], all.Clients[1], all.Clients[len(all.Clients)-1]
		if worst.Name != "x-nacking" || worst.State != ops.Nacked || worst.Nack.Message != "not to my taste" || worst.Has != fanout.HasNone {
			t.Errorf("the worst is %+v", worst)
		}
		if late.Name != "x-mute" || late.State != ops.Stale || late.Waiting != "awaiting ACK" {
			t.Errorf("the next is %+v", late)
		}
		if last.State != ops.Synced || last.Has != fanout.HasCurrent || last.Version == "" || last.AckedVersion == "" || last.Waiting != "" {
			t.Errorf("the last is %+v", last)
		}
		var paged []ops.WhoClient
		for v := query("limit", "3"); ; {
			page, code := w.who("b", v)
			if code != http.StatusOK {
				t.Fatalf("a page: %d", code)
			}
			if paged = append(paged, page.Clients...); page.Next == "" {
				break
			}
			v.Set("page", page.Next)
		}
		if w.text(paged) != w.text(all.Clients) {
			t.Errorf("page by page: %+v, expected %+v", paged, all.Clients)
		}
		if who, _ := w.who("a", query("state", "nacked")); len(who.Clients) != 1 || who.Resources[0].Selected != 1 || who.Resources[0].States[ops.Synced] == 0 {
			t.Errorf("who rejects: %+v", who)
		}
		if who, _ := w.who("a", url.Values{"resource": {"*-a"}, "key": {"blue"}}); len(who.Copies) == 0 || slices.ContainsFunc(who.Copies, func(c ops.WhoCopy) bool { return c.Key != "blue" }) {
			t.Errorf("of one key: %+v", who.Copies)
		}
		if who, code := w.who("a", url.Values{"resource": {name + "x"}}); code != http.StatusNotFound || !slices.Contains(who.Similar, name) {
			t.Errorf("a name that is nearly right: %d %+v", code, who)
		}
		w.kill("c")
		who, _ := w.who("a", query())
		if len(who.Silent) != 1 || who.Silent[0].Node != "c" || strings.Contains(fmt.Sprint(who.Clients), " c ") {
			t.Errorf("without node c: %+v", who)
		}
	})
}
