package relay

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"xdsrelay/relay/ops"
)

// The questions that nodes ask one another for the live page.
const (
	askLive   = "live"
	askSeries = "series"
)

// paramSince is from when on samples are asked for.
const paramSince = "since"

// answerLive answers what is asked for the live page.
func (n *Node) answerLive() {
	n.tier.Handle(askLive, func(context.Context, url.Values) (any, error) { return n.stateNow(), nil })
	n.tier.Handle(askSeries, func(_ context.Context, q url.Values) (any, error) {
		since, err := strconv.ParseInt(q.Get(paramSince), 10, 64)
		if err != nil {
			return nil, err
		}
		part := n.samples.after(since)
		part.Node = n.name
		return part, nil
	}, paramSince)
	n.tier.Handle(askCopy, func(ctx context.Context, q url.Values) (any, error) {
		n.copyFrom(ctx, q.Get(paramFrom))
		return true, nil
	}, paramFrom)
	n.tier.Handle(askCopies, func(context.Context, url.Values) (any, error) { return n.copied(), nil })
}

// statesOfAll asks all nodes how they are.
func (n *Node) statesOfAll(ctx context.Context) ([]ops.NodeState, []ops.Silent) {
	return ops.AskAll[ops.NodeState](ctx, n.everybody(), askLive, url.Values{}, nil)
}

// unheard is after how long it is doubtful who is in the tier.
const unheard = 10 * time.Second

// mostProblems bounds those of files, of servers and of types that are told.
const mostProblems = 5

// stateNow is how this node is.
func (n *Node) stateNow() ops.NodeState {
	s := n.stateWithoutClients()
	s.Admin = n.adminURL()
	s.Sums, s.Progress, s.Totals, s.Propagation = n.own().Sums(), n.board.Look(), n.samples.totals(), n.samples.took(time.Now())
	return s
}

// stateWithoutClients is stateNow without what costs something for each client.
func (n *Node) stateWithoutClients() ops.NodeState {
	s := ops.NodeState{
		Node: n.name, Settings: n.Settings(), Keys: n.own().KeySums(),
		Redis: n.redis(), CutSince: n.tier.CutSince(), Certificates: n.certs.bad(time.Now()), Frozen: ops.FrozenBy(n.cache.Orders()),
	}
	if n.foreign != nil {
		s.Foreign, s.ForeignSince = n.foreign()
	}
	if heard := n.members.Heard(); time.Since(heard) > unheard {
		s.Unheard = heard
	}
	if n.keeper != nil {
		s.LastGood, s.LastGoodSince = n.keeper.Problem()
	}
	if err := n.Ready(); err != nil {
		s.NotReady = err.Error()
	}
	for _, o := range n.origins.describe() {
		s.SeparateTypes = append(s.SeparateTypes, o.SeparateTypes[:min(len(o.SeparateTypes), mostProblems-len(s.SeparateTypes))]...)
		into := &s.Unreachable
		if o.Kind == ops.Directory {
			into = &s.Problems
		}
		for _, problem := range o.Problems {
			if len(*into) < mostProblems {
				*into = append(*into, problem)
			}
		}
	}
	return s
}
