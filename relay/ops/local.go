package ops

import (
	"slices"
	"time"

	"xdsrelay/fanout"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/events"
	"xdsrelay/relay/tier"
)

// Local is the state of one node: its clients and keys. Its functions are called concurrently. All
// methods are safe for concurrent use.
type Local struct {
	// Node is its name; Clients are the streams of its clients and those that poll,
	// Groups its keys.
	Node    string
	Clients func() []fanout.Client
	Groups  func() []*cache.Group
	// Peers are the streams of other nodes, which follow this one.
	Peers func() []fanout.StreamInfo
	// GroupInfos describe the keys, and Places says from where the node gets each.
	GroupInfos func() []cache.GroupInfo
	Places     func() map[string]tier.Place
	// ClientEvents are those of clients with a node id, of open streams and of clients that have left;
	// more says that there are further streams. Nil means that the node keeps none.
	ClientEvents func(id string) (all []fanout.ClientEvents, more bool)
	// Orders is what operators can have done about clients.
	Orders Orders
	// Events returns the events that a reader lacks; see [events.Recorder.After]. Nil means none.
	Events func(read events.Positions, since time.Time) []events.Part
	// Running is the configuration of the node. EndFormer ends streams of clients on former rules; see
	// [fanout.Server.EndFormer].
	Running   func() Running
	EndFormer func(most int) int
}

// Part is a page of the clients of one node, by name, key and address.
type Part struct {
	Clients []Client `json:"clients"`
	// More says that there may be others behind them.
	More bool `json:"more"`
}

// Part answers a query. Only the clients of the page are looked at closer, and those
// that are passed over since they stand otherwise than asked for.
func (l Local) Part(q Query) Part {
	streams := l.find(q)
	out := Part{Clients: []Client{}}
	for len(streams) > 0 {
		n := sameClient(streams)
		if c := describe(l.Node, streams[:n], &q); q.stands(&c) {
			c.cutTo(&q)
			out.Clients = append(out.Clients, c)
		}
		if streams = streams[n:]; len(out.Clients) >= q.Limit {
			break
		}
	}
	out.More = len(streams) > 0
	return out
}

// find returns the streams of the clients that q may ask for, in order.
func (l Local) find(q Query) []fanout.Client {
	streams := slices.DeleteFunc(l.Clients(), func(c fanout.Client) bool {
		return !q.named(c.ID(), c.Key()) || q.after != nil && l.at(c).compare(*q.after) <= 0
	})
	slices.SortFunc(streams, func(a, b fanout.Client) int { return l.at(a).compare(l.at(b)) })
	return streams
}

func (l Local) at(c fanout.Client) at { return at{c.ID(), c.Key(), c.Peer(), l.Node} }

// sameClient is how many of the streams, from the first one on, are the same client's.
func sameClient(streams []fanout.Client) int {
	first, n := streams[0], 1
	for n < len(streams) && streams[n].ID() == first.ID() && streams[n].Key() == first.Key() && streams[n].Peer() == first.Peer() {
		n++
	}
	return n
}
