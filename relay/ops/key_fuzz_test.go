package ops

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzKeyQuery: whatever parameters somebody asks for keys with are refused or understood, within bounds,
// and another node understands the same of what it needs.
func FuzzKeyQuery(f *testing.F) {
	for _, text := range []string{
		"", "key=a", "search=A&limit=7&page=b", "sort=state&state=nacked,ok&owner=n", "sort=key&page=x", "limit=0", "sort=clients&page=!",
		"sort=clients&page=" + token(keyRank{Sort: KeysByClients, Count: 3, Key: "k"}), "sort=size&page=" + token(keyRank{Sort: KeysByClients, Key: "k"}), "sort=size&page=bnVsbA",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := ParseKeyQuery(v)
		if err != nil {
			return
		}
		if q.Limit < 0 || q.Limit > mostKeys {
			t.Errorf("a page of %d keys", q.Limit)
		}
		if q.after != nil && q.after.Sort != q.Sort {
			t.Errorf("a page in the order %q continues one in the order %q", q.Sort, q.after.Sort)
		}
		asked, err := ParseKeyQuery(q.Values())
		if err != nil {
			t.Fatal(err)
		}
		if q.whole() { // a node answers with all its keys, and the asker sorts and cuts them
			q = KeyQuery{Key: q.Key, Search: q.Search}
		}
		if !reflect.DeepEqual(asked, q) {
			t.Errorf("%+v becomes %+v", q, asked)
		}
	})
}

// FuzzKeyPages: whatever the keys and the size of a page are, the pages have each key once and in order,
// also if keys end between two pages. A cursor that was made up changes where a page begins, and no more.
func FuzzKeyPages(f *testing.F) {
	f.Add("a,b,c,d,e", "state", byte(1), byte(3), "")
	f.Add("shop/eu,shop/us,edge", "key", byte(2), byte(0), "shop/eu")
	f.Add("a,\xff,b", "size", byte(1), byte(1), token(keyRank{Sort: KeysBySize, Count: 1 << 40, Key: "a"}))
	f.Fuzz(func(t *testing.T, names, order string, limit, gone byte, cursor string) {
		list := slices.DeleteFunc(strings.Split(names, ","), func(k string) bool { return k == "" || !utf8.ValidString(k) })
		slices.Sort(list)
		list = slices.Compact(list)
		if len(list) > 200 {
			return
		}
		var all Keys
		for i, name := range list {
			n := NodeKey{State: "owner", Connected: true, Clients: i % 3, Bytes: int64(len(name)) % 4, Updates: uint64(i) % 2}
			if i%4 == 1 {
				n.States = Count{Nacked: 1}
			}
			all.Keys = append(all.Keys, Key{Key: name, Owner: "n", Nodes: []NodeKey{n}})
		}
		// As the model does: nodes apply [KeyQuery.Wants], and the asker cuts a page.
		page := func(v url.Values, keys Keys) (Keys, bool) {
			q, err := ParseKeyQuery(v)
			if err != nil {
				return Keys{}, false
			}
			keys.Keys = slices.DeleteFunc(slices.Clone(keys.Keys), func(k Key) bool { return !q.Wants(k.Key) })
			if q.whole() {
				return q.sorted(keys), true
			}
			return q.Page(keys), true
		}
		query := url.Values{paramSort: {order}, paramLimit: {"1000"}}
		whole, ok := page(query, all)
		if !ok {
			return
		}
		size := 1 + int(limit)%8
		query.Set(paramLimit, string(rune('0'+size)))
		var seen []string
		rest := all
		for range len(list) + 1 {
			p, ok := page(query, rest)
			if !ok || len(p.Keys) > size {
				t.Fatalf("page %v: %d keys", query, len(p.Keys))
			}
			for _, k := range p.Keys {
				seen = append(seen, k.Key)
			}
			if p.Next == "" {
				break
			}
			query.Set(paramPage, p.Next)
			if gone > 0 { // the key at which the page ended
				rest = Keys{Keys: slices.DeleteFunc(slices.Clone(rest.Keys), func(k Key) bool { return k.Key == seen[len(seen)-1] })}
			}
		}
		var want []string
		for _, k := range whole.Keys {
			want = append(want, k.Key)
		}
		if !slices.Equal(seen, want) {
			t.Errorf("pages of %d in the order %q have %q, expected %q", size, order, seen, want)
		}
		query.Set(paramPage, cursor)
		if p, ok := page(query, all); ok {
			for _, k := range p.Keys {
				if !slices.Contains(list, k.Key) {
					t.Errorf("the cursor %q makes up the key %q", cursor, k.Key)
				}
			}
		}
	})
}
