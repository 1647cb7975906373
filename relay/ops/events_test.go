package ops

import (
	"net/url"
	"testing"
	"time"

	"xdsrelay/relay/events"
)

// FuzzEventQuery: whatever a query has, it is answered or refused, and is the same when it is passed
// on to other nodes.
func FuzzEventQuery(f *testing.F) {
	f.Add("", "", "", "", "")
	f.Add(token(reading{Began: time.Unix(1, 0), Nodes: events.Positions{"run": 7}}), "1", "node,redis.lost", "key", "5")
	f.Fuzz(func(t *testing.T, after, since, kind, key, limit string) {
		q, err := ParseEventQuery(url.Values{paramAfter: {after}, paramSince: {since}, paramKind: {kind}, ParamKey: {key}, paramLimit: {limit}})
		if err != nil {
			return
		}
		again, err := ParseEventQuery(q.Values())
		if err != nil || again.Key != q.Key || again.Limit != q.Limit || !again.Since.Equal(q.Since) || len(again.Kinds) != len(q.Kinds) || len(again.read.Nodes) != len(q.read.Nodes) {
			t.Errorf("%+v became %+v: %v", q, again, err)
		}
	})
}
