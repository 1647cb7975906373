package relay_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdstest"
)

// compare asks a node to compare two sides.
func (w *tierWorld) compare(node string, params ...string) (c ops.Comparison, code int, text string) {
	w.t.Helper()
	v := url.Values{}
	for i := 0; i < len(params); i += 2 {
		v.Set(params[i], params[i+1])
	}
	code, text = w.order(node, http.MethodGet, "/api/v1/compare?"+v.Encode(), &c)
	return c, code, text
}

// differences formats the resources that differ.
func differences(c *ops.Comparison) string {
	var all []string
	for _, d := range c.Differences {
		text := d.Type + " " + d.Name + " " + d.Change
		if d.Fields != nil {
			for _, f := range d.Fields.Fields {
				text += fmt.Sprintf(" [%s %s %s %s]", f.Path, f.Change, f.Old, f.New)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// TestCompare: every node compares two keys, two clients, and a key on two nodes: what only one has, and which fields
// differ. Of secrets it lists only that they differ.
func TestCompare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newOperatedWorld(t, 3, "red", "blue")
		for i, key := range w.keys {
			w.origin.Set(key, xdstest.Cluster("shared", time.Duration(i+1)*time.Second), xdstest.Cluster("equal", time.Second), xdstest.Secret("tls", "certificate", "private-key-of-"+key))
		}
		w.populate()
		for _, key := range w.keys {
			w.client("b", "s-"+key, key, xdstest.Delta).Subscribe(xdstest.SecretType, "tls")
		}
		w.converged()
		synctest.Wait()
		const fields = `CDS shared changed [connectTimeout changed "1s" "2s"], SDS tls changed [ hidden  ]`
		for _, node := range w.names {
			c, code, text := w.compare(node, "kind", "key", "a", "red", "b", "blue")
			if code != http.StatusOK || strings.Contains(text, "private-key") {
				t.Fatalf("node %s: %d %s", node, code, text)
			}
			got := differences(&c)
			for one := range strings.SplitSeq(fields, ", ") {
				if !strings.Contains(got, one) {
					t.Errorf("node %s: %s, expected %s", node, got, one)
				}
			}
			if strings.Contains(got, "equal") || !strings.Contains(got, "CDS red-a removed") || !strings.Contains(got, "CDS blue-a added") || !c.Differs {
				t.Errorf("node %s: %s", node, got)
			}
		}
		if c, _, _ := w.compare("a", "kind", "key", "a", "red", "b", "red", "node_a", "b", "node_b", "c"); c.Differs || len(c.Types) < 4 || c.A.Node != "b" || c.B.Node != "c" {
			t.Errorf("a key on two nodes: %+v", c)
		}
		c, _, _ := w.compare("c", "kind", "client", "a", "s-red", "b", "s-blue", "type", "SDS")
		if got := differences(&c); got != "SDS tls changed [ hidden  ]" {
			t.Errorf("two clients: %s", got)
		}
		w.awkward("b", "red")
		synctest.Wait()
		if c, _, _ = w.compare("a", "kind", "client", "a", "a-red-0", "b", "x-nacking", "type", "CDS"); c.Types[0].A == 0 || c.Types[0].OnlyA != c.Types[0].A || c.Types[0].B != 0 {
			t.Errorf("a client that rejects everything: %+v", c)
		}
		for _, tc := range []struct {
			params []string
			code   int
			text   string
		}{
			{[]string{"kind", "client", "a", "red", "b", "s-red"}, http.StatusNotFound, "it is the name of a key"},
			{[]string{"kind", "client", "a", "s-read", "b", "s-red"}, http.StatusNotFound, "did you mean"},
			{[]string{"kind", "key", "a", "none", "b", "red"}, http.StatusNotFound, "no node has the key"},
			{[]string{"kind", "key", "a", "red", "b", "red", "node_a", "z"}, http.StatusBadRequest, "no node"},
			{[]string{"kind", "key", "a", "red", "b", "red"}, http.StatusBadRequest, "two nodes"},
		} {
			if _, code, text := w.compare("a", tc.params...); code != tc.code || !strings.Contains(text, tc.text) {
				t.Errorf("%q: %d %s", tc.params, code, text)
			}
		}
	})
}
