package ops

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// KeyQuery says which keys are asked for. The zero value is all of them.
type KeyQuery struct {
	// Key is the only one wanted, Search is what it has to hold, in letters of any case.
	Key, Search string
	// After is the key behind which a page begins, and Limit how many it has at most; 0
	// for all.
	After string
	Limit int
	// Sort is their order, States those of which a key must have one on any node, and Owner the
	// node that owns it. Nodes answer such a query with all their keys.
	Sort   KeySort
	States []KeyState
	Owner  string

	after *keyRank // the last key of the previous page, in an order other than by key
}

// mostKeys bounds a page of keys.
const mostKeys = 1000

// KeyQueryParams are the parameters that [ParseKeyQuery] reads.
func KeyQueryParams() []string {
	return []string{ParamKey, paramSearch, paramLimit, paramPage, paramSort, paramState, paramOwner}
}

// ParseKeyQuery reads a query from the parameters of a URL. The error is the asker's.
func ParseKeyQuery(v url.Values) (q KeyQuery, err error) {
	q = KeyQuery{Key: v.Get(ParamKey), Search: v.Get(paramSearch), After: v.Get(paramPage)}
	if text := v.Get(paramLimit); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > mostKeys {
			return q, fmt.Errorf("limit: got %q, expected a number from 1 to %d", text, mostKeys)
		}
	}
	err = q.parseOrder(v)
	return q, err
}

// Values is q as the parameters of a URL.
func (q KeyQuery) Values() url.Values {
	v := url.Values{ParamKey: {q.Key}, paramSearch: {q.Search}}
	if q.whole() { // the order and the states are those of keys, and a node has only its part of each
		return v
	}
	v.Set(paramPage, q.After)
	if q.Limit > 0 {
		v.Set(paramLimit, strconv.Itoa(q.Limit))
	}
	return v
}

// Wants reports whether a key is asked for.
func (q KeyQuery) Wants(key string) bool {
	return (q.Key == "" || key == q.Key) && (q.After == "" || key > q.After) &&
		(q.Search == "" || strings.Contains(strings.ToLower(key), strings.ToLower(q.Search)))
}

// Rows cuts the rows of one node, sorted by key, to a page and one more, by which it is
// seen that there are more.
func (q KeyQuery) Rows(rows []NodeKey) []NodeKey {
	if q.Limit > 0 && len(rows) > q.Limit+1 {
		rows = rows[:q.Limit+1]
	}
	return rows
}

// Page cuts the keys of all nodes to a page. Each node has told more than a page of its
// own keys, if it has more, so the first of all are complete.
func (q KeyQuery) Page(all Keys) Keys {
	if q.Limit > 0 && len(all.Keys) > q.Limit {
		all.Keys = slices.Clip(all.Keys[:q.Limit])
		all.Next = all.Keys[q.Limit-1].Key
	}
	return all
}
