package lease

import (
	"strings"
	"testing"
	"time"

	"xdsrelay/shard"
)

// FuzzReadMember: a record is decoded or skipped, and a decoded one can be used: it has its name
// and an address.
func FuzzReadMember(f *testing.F) {
	text, err := record(shard.Member{Name: "a", Peer: "a:1", Incarnation: "i", Since: time.Unix(1, 2000).UTC(), Status: shard.Status{Clients: 3}})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{text, "", "{}", "null", `{"name":"a","peer":1}`, `{"name":"b","peer":"b:1"}`,
		`{"name":"a","peer":"unix:///var/run/x"}`, `{"name":"a","peer":"xds:///a:1"}`} {
		f.Add("a", s)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		m, ok := readMember(name, text)
		if ok && (m.Name != name || text != "" && (!strings.Contains(m.Peer, ":") || strings.Contains(m.Peer, "/"))) {
			t.Fatalf("read %+v of %q for %q", m, text, name)
		}
		if !ok || text == "" {
			return
		}
		again, err := record(m)
		if err != nil {
			return // longer than before, because of replacement characters for invalid UTF-8
		}
		if back, ok := readMember(name, again); ok && !shardEqual(back, m) {
			t.Fatalf("read %+v, then %+v", m, back)
		}
	})
}

func shardEqual(a, b shard.Member) bool {
	same := a.Since.Equal(b.Since)
	a.Since, b.Since = time.Time{}, time.Time{}
	return same && a == b
}
