package ops

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Query says which clients are asked for. The zero value is all of them.
type Query struct {
	// Name is a node id, Prefix what it has to begin with, and Search what it has to
	// hold, in letters of any case.
	Name, Prefix, Search string
	// Key is an aggregation key, Node a node of the tier.
	Key, Node string
	// States are those of which a client must have one, with Type in that type.
	States []State
	// Type is a type URL that the client has to ask for.
	Type string
	// Reason is a part of the message with which a client must have rejected (NACK) a type.
	Reason string
	// Resources is how many resources of each type are told of; 0 for none.
	Resources int
	// Brief leaves out the types of the clients.
	Brief bool
	// Limit is how many clients a page has at most.
	Limit int
	// Sort is the order of the clients; with the empty one, which is [ByName], the first page has
	// no [Summary].
	Sort Sort

	after     *at      // the last one of the page before
	afterRank *rank    // the same with Sort
	silent    []Silent // who did not answer before, and is not asked again
}

// Bounds of a page: its usual size, and the largest.
const (
	usualPage   = 500
	largestPage = 5000
)

// maxResources bounds how many resources of a type are told of.
const maxResources = 10_000

// ParamKey is the parameter with an aggregation key, ParamVersion that with a version of the control
// plane.
const (
	ParamKey     = "key"
	ParamVersion = "version"
)

// The parameters of a query.
const (
	paramName, paramPrefix, paramNode            = "client", "prefix", "node"
	paramSearch                                  = "search"
	paramState, paramType, paramLimit, paramPage = "state", "type", "limit", "page"
	paramResources, paramAfter, paramPeer        = "resources", "after", "peer"
	paramSort, paramBrief                        = "sort", "brief"
	paramReason                                  = "reason"
)

// QueryParams are the parameters that [ParseQuery] reads.
func QueryParams() []string {
	return []string{paramName, paramPrefix, paramSearch, ParamKey, paramNode, paramState, paramType, paramLimit, paramPage, paramResources, paramSort, paramBrief, paramReason}
}

// ParseQuery reads a query from the parameters of a URL. The error is the asker's.
func ParseQuery(v url.Values) (q Query, err error) {
	q = Query{Name: v.Get(paramName), Prefix: v.Get(paramPrefix), Search: v.Get(paramSearch), Key: v.Get(ParamKey), Node: v.Get(paramNode), Reason: v.Get(paramReason)}
	if text := v.Get(paramState); text != "" {
		if q.States, err = ParseStates(text); err != nil {
			return q, err
		}
	}
	if text := v.Get(paramType); text != "" {
		if q.Type = TypeURL(text); q.Type == "" {
			return q, fmt.Errorf("type: got %q, expected a type URL, its last part, or a name like CDS", text)
		}
	}
	if q.Limit, err = number(v, paramLimit, usualPage, 1, largestPage); err != nil {
		return q, err
	}
	if q.Resources, err = number(v, paramResources, 0, 0, maxResources); err != nil {
		return q, err
	}
	if q.Sort, err = parseSort(v.Get(paramSort)); err != nil {
		return q, err
	}
	if text := v.Get(paramBrief); text != "" {
		if q.Brief, err = strconv.ParseBool(text); err != nil {
			return q, fmt.Errorf("%s: got %q, expected true or false", paramBrief, text)
		}
	}
	err = q.parsePlace(v)
	return q, err
}

// parsePlace reads where a page begins.
func (q *Query) parsePlace(v url.Values) error {
	if text := v.Get(paramPage); text != "" {
		var c cursor
		if err := readToken(text, &c); err != nil || c.Sort != q.Sort || (c.Rank != nil) != (q.Sort != "") {
			return fmt.Errorf("%s: expected next of the previous page", paramPage)
		}
		q.afterRank, q.silent = c.Rank, c.Silent
		if c.Rank == nil {
			q.after = &c.After
		}
	}
	text := v.Get(paramAfter)
	if text == "" {
		return nil
	}
	var err error
	if q.Sort != "" {
		q.afterRank = &rank{}
		err = json.Unmarshal([]byte(text), q.afterRank)
	} else {
		q.after = &at{}
		err = json.Unmarshal([]byte(text), q.after)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", paramAfter, err)
	}
	return nil
}

func number(v url.Values, name string, usual, least, most int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s: got %q, expected a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

// ParseStates reads states that are separated by commas, in letters of any case.
func ParseStates(text string) (states []State, err error) {
	for word := range strings.SplitSeq(text, ",") {
		s := State(strings.ReplaceAll(strings.ToUpper(strings.TrimSpace(word)), "-", "_"))
		if badness[s] == 0 && s != MissingResource {
			return nil, fmt.Errorf("state: got %q, expected synced, stale, nacked, not_sent, unknown or missing, separated by commas", word)
		}
		states = append(states, s)
	}
	return states, nil
}

// values is q as the parameters of a question to another node.
func (q Query) values() url.Values {
	v := url.Values{}
	for name, text := range map[string]string{
		paramName: q.Name, paramPrefix: q.Prefix, paramSearch: q.Search, ParamKey: q.Key, paramType: q.Type,
		paramSort: string(q.Sort), paramReason: q.Reason,
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	var states []string
	for _, s := range q.States {
		states = append(states, string(s))
	}
	if len(states) > 0 {
		v.Set(paramState, strings.Join(states, ","))
	}
	v.Set(paramLimit, strconv.Itoa(q.Limit))
	v.Set(paramResources, strconv.Itoa(q.Resources))
	if q.Brief {
		v.Set(paramBrief, "true")
	}
	var after any
	switch {
	case q.after != nil:
		after = q.after
	case q.afterRank != nil:
		after = q.afterRank
	default:
		return v
	}
	if text, err := json.Marshal(after); err == nil { // texts can always be written
		v.Set(paramAfter, string(text))
	}
	return v
}

// named reports whether a client is asked for by what is known of it without looking
// closer.
func (q *Query) named(name, key string) bool {
	return (q.Name == "" || name == q.Name) && strings.HasPrefix(name, q.Prefix) && (q.Key == "" || key == q.Key) &&
		(q.Search == "" || strings.Contains(strings.ToLower(name), strings.ToLower(q.Search)))
}

// stands reports whether a client stands as is asked for.
func (q *Query) stands(c *Client) bool {
	if q.Type == "" && len(q.States) == 0 && q.Reason == "" {
		return true
	}
	if len(c.Types) == 0 {
		return q.Type == "" && q.Reason == "" && slices.Contains(q.States, c.State)
	}
	return slices.ContainsFunc(c.Types, func(t Type) bool {
		return (q.Type == "" || t.URL == q.Type) && (len(q.States) == 0 || slices.ContainsFunc(q.States, t.is)) &&
			(q.Reason == "" || t.Nack != nil && strings.Contains(strings.ToLower(t.Nack.Message), strings.ToLower(q.Reason)))
	})
}

// cursor is where a page ends.
type cursor struct {
	After  at       `json:"a,omitzero"`
	Rank   *rank    `json:"r,omitempty"`
	Sort   Sort     `json:"o,omitempty"`
	Silent []Silent `json:"s,omitempty"`
}
