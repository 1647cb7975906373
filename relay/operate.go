package relay

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/fleet"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// What operators see and do is about all nodes, whichever of them they ask: it asks
// the others.

// The questions that nodes ask one another for operators, with ?key=.
const (
	askKeys    = "keys"
	askRelease = "release"
)

// released is the answer to askRelease.
type released struct {
	Known    bool `json:"known"`
	Removals int  `json:"removals"`
}

// operate answers the questions of other nodes.
func (n *Node) operate() {
	n.tier.Handle(askKeys, func(_ context.Context, v url.Values) (any, error) {
		q, err := admin.ParseKeyQuery(v)
		if err != nil {
			return nil, err
		}
		return q.Rows(n.ownKeys(q)), nil
	}, admin.KeyQueryParams()...)
	n.crowd = fleet.New(n.own(), n.everybody(), func(path string, h func(context.Context, url.Values) (any, error), params ...string) {
		n.tier.Handle(path, h, params...)
	})
	n.board = fleet.NewBoard(n.own())
	n.answerLive()
	n.answerTerms()
	n.add(part{run: n.watchAgreement})
	n.answerVisits()
	n.followTraces()
	n.tier.Handle(askRelease, func(_ context.Context, q url.Values) (any, error) { return n.releaseHere(q.Get(admin.ParamKey)), nil }, admin.ParamKey)
}

// own are the clients of this node.
func (n *Node) own() fleet.Local {
	return fleet.Local{Node: n.name, Clients: n.everyClient, Groups: func() []*cache.Group { return n.cache.Groups() }}
}

// otherStatus are the other nodes, to be asked for their part of who has what.
func (n *Node) otherStatus() (others []csds.Other) {
	if n.links == nil {
		return nil
	}
	members, strays := n.everybody().Others()
	for i, m := range append(members, strays...) {
		others = append(others, csds.Other{Name: m.Name, Stray: i >= len(members), Ask: func(ctx context.Context, req *statusv3.ClientStatusRequest) (grpc.ClientStream, error) {
			return n.links.Stream(ctx, m, csds.Method, req)
		}})
	}
	return others
}

// tierAdmin is what the admin port shows and does.
func (n *Node) tierAdmin() admin.Tier {
	return admin.Tier{
		Members: func() admin.Members {
			view := n.members.View().Members()
			return admin.Members{
				Self: n.name, Heard: n.members.Heard(), Members: view, Silent: n.quiet.Among(view), Strays: n.strays.Alive(), Missing: n.missing(),
				Differences: n.agreement.differences(), Clocks: n.clocks.differ(), Redis: n.redis(),
			}
		},
		Own:   n.stateNow,
		Fleet: n.crowd, Nodes: n.statesOfAll, Series: n.seriesOfAll, Keys: n.keysOfAll, Explain: n.explain, Release: n.releaseOnAll,
		Drain: func() (admin.Draining, error) {
			return admin.Draining{Node: n.name, Clients: n.fanout.Count(), Over: n.settings.drain().Time.Seconds()}, n.Drain()
		},
	}
}

// askAll asks all nodes about a key.
func askAll[T any](ctx context.Context, n *Node, path, key string) (answers []T, silent []admin.Silent) {
	return fleet.AskAll[T](ctx, n.everybody(), path, url.Values{admin.ParamKey: {key}}, nil)
}

// everybody is how all nodes are asked.
func (n *Node) everybody() *fleet.Tier {
	return &fleet.Tier{
		Self: n.members.Self, Members: func() []shard.Member { return n.members.View().Members() }, Strays: n.lookForStrays, Ask: n.askNode, Quiet: n.quiet.Since,
		Owner: func(key string) string {
			owner, _ := n.members.View().Owner(key)
			return owner.Name
		},
	}
}

// missing are the nodes that should be there and do not answer.
func (n *Node) missing() []fleet.Missing {
	var all []fleet.Missing
	for _, m := range n.members.Missing() {
		one := fleet.Missing{Member: m.Member, Listed: true, Heard: m.Heard}
		if m.Err != nil {
			one.Error = fleet.InShort(m.Err)
		}
		all = append(all, one)
	}
	for _, m := range n.strays.Gone() {
		if !slices.ContainsFunc(all, func(o fleet.Missing) bool { return o.Name == m.Name }) {
			all = append(all, m)
		}
	}
	for i := range all {
		if last := n.quiet.Since(all[i].Name); !last.IsZero() && last.Before(all[i].Heard) {
			all[i].Heard = last
		}
	}
	return all
}

// redis is how the tier's Redis is for this node; nil if there is none.
func (n *Node) redis() *store.State {
	if n.store == nil {
		return nil
	}
	state := n.store.State()
	return &state
}

// lookForStrays are the nodes that may be there, although they are no members.
func (n *Node) lookForStrays() []shard.Member {
	return n.strays.Look(n.members.View().Members(), n.members.Left, time.Now())
}

// askNode asks a node, and remembers whether it answers.
func (n *Node) askNode(ctx context.Context, m shard.Member, path string) ([]byte, error) {
	answer, err := n.tier.Ask(ctx, m, path)
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) { // else nobody has waited for it
		now := time.Now()
		n.strays.Note(m.Name, err, now)
		n.quiet.Note(m.Name, err, now)
	}
	return answer, err
}

// keysOfAll are keys of all nodes.
func (n *Node) keysOfAll(ctx context.Context, q admin.KeyQuery) admin.Keys {
	answers, silent := fleet.AskAll[[]admin.NodeKey](ctx, n.everybody(), askKeys, q.Values(), nil)
	rows := slices.Concat(answers...)
	rows = slices.DeleteFunc(rows, func(row admin.NodeKey) bool { return !q.Wants(row.Key) }) // of a node of an older version
	slices.SortStableFunc(rows, func(a, b admin.NodeKey) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Node, b.Node))
	})
	all := admin.Keys{Keys: []admin.Key{}, Silent: silent}
	view := n.members.View()
	for _, row := range rows {
		if last := len(all.Keys) - 1; last < 0 || all.Keys[last].Key != row.Key {
			owner, _ := view.Owner(row.Key)
			all.Keys = append(all.Keys, admin.Key{Key: row.Key, Owner: owner.Name})
		}
		one := &all.Keys[len(all.Keys)-1]
		one.Nodes = append(one.Nodes, row)
	}
	return q.Page(all)
}

// ownKeys are those keys that this node has.
func (n *Node) ownKeys(q admin.KeyQuery) []admin.NodeKey {
	places := n.tier.Places()
	rows, states := []admin.NodeKey{}, n.own().Keys()
	for _, g := range n.cache.GroupInfos() {
		if !q.Wants(g.Key) {
			continue
		}
		row := admin.NodeKey{
			Key: g.Key, Node: n.name, State: "owner", Since: g.Since, Clients: g.Clients, Peers: g.Peers, Connected: g.Connected,
			Error: g.Error, Bytes: g.Bytes, HeldRemovals: g.HeldRemovals, Stale: g.Stale, States: states[g.Key],
		}
		for _, t := range g.Tables {
			row.Resources += t.Resources
			row.Updates += t.Updates
			row.Changes += t.Changes
		}
		if place, ok := places[g.Key]; ok {
			row.State, row.From, row.Since = string(place.State), place.Owner, place.Since
		}
		if g.Idle {
			row.State, row.From = "idle", ""
		}
		rows = append(rows, row)
	}
	return rows
}

// explain tells which key a client gets, and what becomes of it.
func (n *Node) explain(ctx context.Context, node, peer []byte) (admin.Explained, error) {
	ex, err := explainBy(n.rules.Load(), n.policy.Load(), node, peer)
	if err != nil || ex.Refused() {
		return admin.Explained{Rules: ex, Refused: ex.Refused()}, err
	}
	key := string(ex.Result.Key)
	owner, _ := n.members.View().Owner(key)
	found := admin.Key{Key: key, Owner: owner.Name, Nodes: []admin.NodeKey{}}
	all := n.keysOfAll(ctx, admin.KeyQuery{Key: key})
	if len(all.Keys) > 0 {
		found = all.Keys[0]
	}
	return admin.Explained{Rules: ex, Key: &found, Silent: all.Silent}, nil
}

// releaseOnAll does the removals of a key that are held back, on each node: the owner
// decides for its followers, and a node that cannot reach it has decided for itself.
func (n *Node) releaseOnAll(ctx context.Context, key string) (admin.Released, error) {
	answers, silent := askAll[released](ctx, n, askRelease, key)
	done, known := admin.Released{Key: key, Silent: silent}, false
	for _, a := range answers {
		known = known || a.Known
		done.Removals += a.Removals
	}
	if !known {
		return done, admin.ErrUnknownKey
	}
	n.log.Info("removals were released", "key", key, "removals", done.Removals)
	return done, nil
}

// releaseHere is releaseOnAll on this node alone.
func (n *Node) releaseHere(key string) released {
	groups := n.cache.Groups()
	i := slices.IndexFunc(groups, func(g *cache.Group) bool { return string(g.Key) == key })
	if i < 0 {
		return released{}
	}
	return released{Known: true, Removals: groups[i].Release()}
}
