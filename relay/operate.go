package relay

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/fanout"
	"xdsrelay/relay/admin"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/csds"
	"xdsrelay/relay/events"
	"xdsrelay/relay/ops"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// What operators see and do is about all nodes, whichever of them they ask: it asks
// the others.

// askRelease makes a node release the held removals of the key in ?key=.
const askRelease = "release"

// released is the answer to askRelease.
type released struct {
	Known    bool `json:"known"`
	Removals int  `json:"removals"`
}

// operate answers the questions of other nodes.
func (n *Node) operate() {
	n.model = ops.New(n.own(), n.everybody(), func(path string, h func(context.Context, url.Values) (any, error), params ...string) {
		n.tier.Handle(path, h, params...)
	})
	n.board = ops.NewBoard(n.own())
	n.answerLive()
	n.answerTerms()
	n.add(part{run: n.watchAgreement})
	n.answerVisits()
	n.answerRollouts()
	n.followTraces()
	n.tier.Handle(askRelease, func(ctx context.Context, q url.Values) (any, error) {
		if err := n.trustsOrders(ctx); err != nil {
			return nil, err
		}
		return n.releaseHere(q.Get(ops.ParamKey)), nil
	}, ops.ParamKey)
}

// own are the clients of this node.
func (n *Node) own() ops.Local {
	local := ops.Local{
		Node: n.name, Clients: n.everyClient, Places: n.tier.Places,
		Groups:     func() []*cache.Group { return n.cache.Groups() },
		GroupInfos: func() []cache.GroupInfo { return n.cache.GroupInfos() },
		Peers:      func() []fanout.StreamInfo { return n.fanout.PeerStreams() },
		Orders:     n.orders(),
		Events:     n.events.After,
		Running:    n.running, EndFormer: func(most int) int { return n.fanout.EndFormer(most) },
	}
	if n.cfg.Limits.MaxClientEventsSize > 0 {
		local.ClientEvents = func(id string) ([]fanout.ClientEvents, bool) { return n.fanout.Events(id) }
	}
	return local
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
		Members: func() ops.Members {
			view := n.members.View().Members()
			return ops.Members{
				Self: n.name, Heard: n.members.Heard(), Members: view, Silent: n.quiet.Among(view), Strays: n.strays.Alive(), Missing: n.missing(),
				Differences: n.agreement.differences(), Clocks: n.clocks.differ(), Redis: n.redis(),
			}
		},
		Own:     n.stateNow,
		Rollout: n.showRollout(),
		Model:   n.model, Nodes: n.statesOfAll, Series: n.seriesOfAll, Explain: n.explain, Release: n.releaseOnAll,
		Drain: func() (admin.Draining, error) {
			return admin.Draining{Node: n.name, Clients: n.fanout.Count(), Over: n.settings.drain().Duration.Seconds()}, n.Drain()
		},
	}
}

// askAll asks all nodes about a key.
func askAll[T any](ctx context.Context, n *Node, path, key string) (answers []T, silent []ops.Silent) {
	return ops.AskAll[T](ctx, n.everybody(), path, url.Values{ops.ParamKey: {key}}, nil)
}

// everybody is how all nodes are asked.
func (n *Node) everybody() *ops.Nodes {
	return &ops.Nodes{
		Self: n.members.Self, Members: func() []shard.Member { return n.members.View().Members() }, Strays: n.lookForStrays, Ask: n.askNode, Quiet: n.quiet.Since,
		Owner: func(key string) string {
			owner, _ := n.members.View().Owner(key)
			return owner.Name
		},
	}
}

// missing are the nodes that should be there and do not answer.
func (n *Node) missing() []ops.Missing {
	var all []ops.Missing
	for _, m := range n.members.Missing() {
		one := ops.Missing{Member: m.Member, Listed: true, Heard: m.Heard}
		if m.Err != nil {
			one.Error = ops.InShort(m.Err)
		}
		all = append(all, one)
	}
	for _, m := range n.strays.Gone() {
		if !slices.ContainsFunc(all, func(o ops.Missing) bool { return o.Name == m.Name }) {
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
		now, silent := time.Now(), err
		if status.Code(err) == codes.PermissionDenied {
			silent = nil // it has answered
		}
		n.strays.Note(m.Name, silent, now)
		n.quiet.Note(m.Name, silent, now)
	}
	return answer, err
}

// explain tells which key a client gets, and what becomes of it.
func (n *Node) explain(ctx context.Context, node, peer []byte) (admin.Explained, error) {
	ex, err := explainBy(n.rules.Load(), n.policy.Load(), node, peer)
	if err != nil || ex.Refused() {
		return admin.Explained{Rules: ex, Refused: ex.Refused()}, err
	}
	key := string(ex.Result.Key)
	owner, _ := n.members.View().Owner(key)
	found := ops.Key{Key: key, Owner: owner.Name, Nodes: []ops.NodeKey{}}
	all := n.model.Keys(ctx, ops.KeyQuery{Key: key})
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
		return done, ops.ErrUnknownKey
	}
	about := []any{"key", key, "removals", done.Removals}
	if done.Removals > 0 {
		about = append(about, events.Key, events.GuardApproved)
	}
	n.log.Info("removals were released", about...)
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
