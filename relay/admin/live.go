package admin

import (
	"context"
	"slices"
	"sync"
	"time"

	"xdsrelay/relay/fleet"
	"xdsrelay/relay/series"
	"xdsrelay/relay/terms"
	"xdsrelay/shard"
	"xdsrelay/shard/store"
)

// NodeState is what a node tells of itself for the live page.
type NodeState struct {
	Node string `json:"node"`
	// NotReady is why it should get no clients; empty if it should.
	NotReady string     `json:"not_ready,omitempty"`
	Settings Settings   `json:"settings"`
	Sums     fleet.Sums `json:"sums"`
	Keys     KeySums    `json:"keys"`
	// Problems are what is wrong with files of directories, Unreachable what keeps
	// servers of control planes out of reach: a few of each.
	Problems    []string `json:"problems,omitempty"`
	Unreachable []string `json:"unreachable,omitempty"`
	// Apart are types for which a control plane seems to end streams; see
	// [OriginInfo].
	Apart []string `json:"apart,omitempty"`
	// Redis is how the tier's Redis is for the node; nil if there is none. Unheard is when
	// the node last knew who is in the tier, where that is a while ago, and CutSince since
	// when no server of the control plane can be reached.
	Redis    *store.State `json:"redis,omitempty"`
	Unheard  time.Time    `json:"unheard,omitzero"`
	CutSince time.Time    `json:"cut_since,omitzero"`
	// LastGood is why the last known good state cannot be written, and since when.
	LastGood      string    `json:"last_good,omitempty"`
	LastGoodSince time.Time `json:"last_good_since,omitzero"`
	// Foreign are nodes that Redis has under the prefix of the tier and that are none of
	// its own, a few of them.
	Foreign      []string  `json:"foreign,omitempty"`
	ForeignSince time.Time `json:"foreign_since,omitzero"`
	// Certificates are those that the node shows and that are good no more, or not for long.
	Certificates []BadCertificate `json:"certificates,omitempty"`
	Progress     []fleet.Progress `json:"progress"`
	// Totals and Took are ten seconds old at most.
	Totals series.Totals `json:"totals"`
	Took   series.Counts `json:"took"`
}

// BadCertificate is a certificate that a node shows and that is good no more, not yet, or
// not for long.
type BadCertificate struct {
	// Use is the section of the configuration that names it.
	Use   string    `json:"use"`
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	Ended bool      `json:"ended,omitempty"`
	Early bool      `json:"early,omitempty"`
}

// KeySums are the keys of a node in numbers.
type KeySums struct {
	// Owner, Follower, Alone, ForPeers and Idle are from where it gets them; see
	// [NodeKey].
	Owner    int `json:"owner"`
	Follower int `json:"follower"`
	Alone    int `json:"alone"`
	ForPeers int `json:"for_peers"`
	Idle     int `json:"idle"`
	// Down are those without a stream that they should have, DownSince is since when
	// the first one is, and DownError why.
	Down      int       `json:"down"`
	DownSince time.Time `json:"down_since,omitzero"`
	DownError string    `json:"down_error,omitempty"`
	// Stale are those with something from an earlier life of the tier (K14), Held those
	// of which removals are held back (K16).
	Stale int `json:"stale"`
	Held  int `json:"held"`
	// Empty are those with clients and without any content, while no origin can be asked.
	Empty int `json:"empty,omitempty"`
}

// Live is a tier at a glance. It holds no time that passes while nothing happens, so
// that an answer is the same as the one before as long as nothing has changed.
type Live struct {
	Title string     `json:"title"`
	Self  string     `json:"self"`
	Nodes []LiveNode `json:"nodes"`
	// Clients are those of all nodes that answered.
	Clients fleet.Summary  `json:"clients"`
	Updates []fleet.Update `json:"updates"`
	// Took is how long updates took to the clients of all nodes that answered.
	Took series.Took `json:"took"`
	// Traffic is what went in and out since the nodes were started.
	Traffic series.Totals `json:"traffic"`
	Origins []OriginInfo  `json:"origins"`
	// Warnings are what an operator should look at, the worst first.
	Warnings []Warning `json:"warnings"`
}

// LiveNode is a node of the tier.
type LiveNode struct {
	Name    string    `json:"name"`
	Version string    `json:"version,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	// State is ok, draining, "no origin", "not ready", silent, apart for one that is no
	// member and serves clients all the same, or gone for one that went without having
	// said so; Error says why. Differs are the sections of its configuration that differ
	// from those of most others and should not.
	State   string   `json:"state"`
	Error   string   `json:"error,omitempty"`
	Differs []string `json:"differs,omitempty"`
	// Clients are unknown of one that is silent, and Streams are those that it last said
	// it had.
	Clients  int           `json:"clients"`
	Streams  int           `json:"streams"`
	States   fleet.Count   `json:"states"`
	Keys     KeySums       `json:"keys"`
	Traffic  series.Totals `json:"traffic"`
	Settings *Settings     `json:"settings,omitempty"`
	// Redis is how the tier's Redis is for it; nil if that is not known.
	Redis *store.State `json:"redis,omitempty"`
}

// observed is all that is known of a tier at a moment.
type observed struct {
	title   string
	members Members
	answers []NodeState
	silent  []Silent
	origins []OriginInfo
}

// live puts together what nodes have told.
func (o observed) live() Live {
	l := Live{Title: o.title, Self: o.members.Self, Nodes: []LiveNode{}, Origins: o.origins}
	var sums []fleet.Sums
	var boards [][]fleet.Progress
	for _, m := range o.members.everybody() {
		n := LiveNode{Name: m.Name, Version: m.Version, Since: m.Since, State: memberState(m), States: fleet.Count{}}
		if slices.ContainsFunc(o.members.Strays, func(s shard.Member) bool { return s.Name == m.Name }) {
			n.State = stateApart
		}
		if i := slices.IndexFunc(o.silent, func(s Silent) bool { return s.Node == m.Name }); i >= 0 {
			n.State, n.Error, n.Streams = stateSilent, o.silent[i].Error, o.silent[i].Clients
		}
		if i := slices.IndexFunc(o.answers, func(a NodeState) bool { return a.Node == m.Name }); i >= 0 {
			a := &o.answers[i]
			if n.State == "ok" && a.NotReady != "" {
				n.State, n.Error = "not ready", a.NotReady
			}
			n.Clients, n.Streams, n.States, n.Keys, n.Traffic, n.Settings = a.Sums.Clients, a.Sums.Streams, a.Sums.States, a.Keys, a.Totals, &a.Settings
			n.Redis = a.Redis
			l.Traffic.Add(a.Totals)
			sums, boards = append(sums, a.Sums), append(boards, a.Progress)
		}
		if i := slices.IndexFunc(o.members.Differences, func(d terms.Difference) bool { return d.Node == m.Name }); i >= 0 {
			n.Differs = o.members.Differences[i].Parts
		}
		l.Nodes = append(l.Nodes, n)
	}
	for _, m := range o.members.absent() {
		state := stateGone
		if m.Listed {
			state = stateSilent
		}
		l.Nodes = append(l.Nodes, LiveNode{Name: m.Name, Version: m.Version, State: state, Error: m.Error, States: fleet.Count{}})
	}
	var took []series.Counts
	for i := range o.answers {
		took = append(took, o.answers[i].Took)
	}
	l.Took = series.JoinTook(took)
	l.Clients, l.Updates = fleet.SumUp(sums, o.silent), fleet.Updates(boards)
	l.Warnings = o.warnings(l.Clients.Rejections)
	return l
}

// lookPause is how long an answer is good: several pages that are open cost a tier
// what one costs.
const lookPause = time.Second

// watcher looks at a tier when it is asked to, and seldom enough.
type watcher struct {
	cfg Config // fixed

	mu sync.Mutex
	// Guarded by mu.
	at      time.Time
	last    Live
	members Members
}

// look asks all nodes, unless that was done just now. Who comes meanwhile waits for the
// answer, which no single one of them can break off.
func (v *watcher) look(ctx context.Context) Live {
	last, _ := v.observe(ctx)
	return last
}

// observe is look, with what it is made of.
func (v *watcher) observe(ctx context.Context) (Live, Members) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Since(v.at) < lookPause {
		return v.last, v.members
	}
	answers, silent := v.cfg.Tier.Nodes(context.WithoutCancel(ctx))
	v.members = v.cfg.Tier.Members()
	v.last = observed{title: v.cfg.Title, members: v.members, answers: answers, silent: silent, origins: v.cfg.Origins()}.live()
	v.at = time.Now()
	return v.last, v.members
}

// everybody are the members, with this node also where it is not among them, and the
// strays.
func (m Members) everybody() []shard.Member {
	all := slices.Concat(m.Members, m.Strays)
	if slices.ContainsFunc(all, func(one shard.Member) bool { return one.Name == m.Self }) {
		return all
	}
	return append([]shard.Member{{Name: m.Self}}, all...)
}

// absent are the nodes that are missing, but for those that are told of as members.
func (m Members) absent() (all []fleet.Missing) {
	there := m.everybody()
	for _, gone := range m.Missing {
		if !slices.ContainsFunc(there, func(one shard.Member) bool { return one.Name == gone.Name }) {
			all = append(all, gone)
		}
	}
	return all
}
