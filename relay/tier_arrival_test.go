package relay_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// arrival asks a node how far a version has come.
func (w *tierWorld) arrival(node, version, key string) (a ops.Arrival) {
	w.t.Helper()
	path := "/api/v1/version?" + url.Values{"version": {version}, "key": {key}}.Encode()
	if code, text := w.order(node, http.MethodGet, path, &a); code != http.StatusOK {
		w.t.Fatalf("%d %s", code, text)
	}
	return a
}

// newest is the control plane's version of the newest update of clusters.
func (w *tierWorld) newest(key string) string {
	w.t.Helper()
	var h ops.History
	w.order(w.roster.owner(key), http.MethodGet, "/api/v1/history?key="+key, &h)
	for _, n := range h.Nodes {
		if n.Node == w.roster.owner(key) {
			return n.Types[0].Versions[0].ControlPlaneVersion
		}
	}
	return ""
}

// TestVersionArrives: whichever node is asked, a version of the control plane counts as everywhere
// once the clients of all nodes have acknowledged it, for types that clients ask for by name and by
// the wildcard, of SotW and delta control planes. A client that stalls is named, and so is a key that
// did not get it.
func TestVersionArrives(t *testing.T) {
	originVariants(t, func(t *testing.T, variant config.Variant) {
		synctest.Test(t, func(t *testing.T) {
			w := newOperatedWorldOf(t, 3, variant, "red", "blue")
			for _, node := range w.names {
				for i, v := range []xdstest.Variant{xdstest.Delta, xdstest.SotW} {
					c := w.client(node, fmt.Sprint(node, "-", i), "red", v)
					c.Subscribe(xdstest.ClusterType)
					c.Subscribe(xdstest.EndpointType, "red-a")
					w.clients["red"] = append(w.clients["red"], c)
				}
			}
			guest := w.client(w.names[0], "guest", "blue", xdstest.Delta)
			guest.Subscribe(xdstest.ClusterType)
			guest.WaitHeld(t, xdstest.ClusterType, "blue-a", "blue-b")
			w.converged()
			stalls := w.stream(w.other("red"), xdstest.Delta)
			stalls.Subscribe(xdstest.ClusterType)
			stalls.Ack(stalls.Recv(t))
			w.settle()
			for _, node := range w.names {
				if a := w.arrival(node, "nothing", "red"); a.State != ops.VersionUnknown || a.KeysWithout != 1 {
					t.Errorf("asked node %s about an unknown version: %+v", node, a)
				}
			}

			w.set("red", 2)
			w.settle()
			version := w.newest("red")
			for _, node := range w.names {
				a := w.arrival(node, version, "red")
				if a.State != ops.VersionWaiting || len(a.Behind) != 1 || a.Behind[0].Name != "client" || a.Behind[0].Type != "CDS" || a.Clients != 7 || a.Reached != 6 {
					t.Errorf("asked node %s while a client stalls: %+v", node, a)
				}
			}
			stalls.Ack(stalls.Recv(t))
			w.settle()
			for _, node := range w.names {
				a := w.arrival(node, version, "red")
				if a.State != ops.VersionReached || a.Reached != 7 || len(a.Types) != 2 {
					t.Errorf("asked node %s: %+v", node, a)
				}
			}

			if a := w.arrival(w.names[1], version, ""); a.State != ops.VersionWaiting || !slices.Equal(a.Without, []string{"blue"}) {
				t.Errorf("with a key that did not get it: %+v", a)
			}
			w.set("red", 3) // what is newer counts, too
			w.settle()
			stalls.Ack(stalls.Recv(t))
			time.Sleep(time.Second) //nolint:forbidigo // virtual time
			if a := w.arrival(w.names[2], version, "red"); a.State != ops.VersionReached {
				t.Errorf("after a newer version: %+v", a)
			}
			w.kill(w.names[0])
			if a := w.arrival(w.names[1], version, "red"); a.State == ops.VersionReached {
				t.Errorf("with a node that does not answer: %+v", a)
			}
		})
	})
}

// TestChangesOfTier: any node shows what the owner of a key recorded: the fields that differ, with
// the version of the control plane.
func TestChangesOfTier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 2, "red")
		c := w.client(w.other("red"), "c", "red", xdstest.Delta)
		c.Subscribe(xdstest.ClusterType)
		w.clients["red"] = []*xdstest.Auto{c}
		w.converged()
		w.set("red", 2)
		w.converged()
		w.settle()
		version := w.newest("red")
		for _, node := range w.names {
			var h ops.History
			w.order(node, http.MethodGet, "/api/v1/history?key=red", &h)
			for _, of := range h.Nodes {
				if past := of.Types[0].Versions[0]; past.ControlPlaneVersion != version || !slices.Equal(past.ChangedNames, []string{"red-a"}) || !slices.Equal(past.AddedNames, []string{"red-c"}) {
					t.Errorf("asked node %s: node %s has %+v", node, of.Node, past)
				}
			}
			if len(h.Nodes) != 2 {
				t.Errorf("%d nodes have a history", len(h.Nodes))
			}
			var changes ops.Changes
			w.order(node, http.MethodGet, "/api/v1/history/changes?key=red&update="+version, &changes)
			if changes.Node != w.roster.owner("red") || len(changes.Types) != 1 || len(changes.Types[0].Resources) != 2 {
				t.Fatalf("asked node %s: %+v", node, changes)
			}
			if f := changes.Types[0].Resources[0].Fields; len(f) != 1 || f[0].Path != "connectTimeout" || f[0].Old != `"1s"` || f[0].New != `"2s"` {
				t.Errorf("asked node %s: %+v", node, f)
			}
		}
	})
}
