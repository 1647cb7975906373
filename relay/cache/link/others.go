package link

import "time"

const (
	// AskedFor is how long other nodes need not be asked again: this node keeps what they have of
	// types without interest here for at least as long.
	AskedFor = 5 * time.Second
	// UnaskedFor is how long nodes that were not asked before the control plane are asked after it.
	// It is longer than nodes need to be known again after Redis has lost its content.
	UnaskedFor = 10 * time.Second
)

// Others is which of the other nodes have been asked for what they have. The zero value is that of a
// node that knows no others.
type Others struct {
	// Exist says that there may be other nodes.
	Exist bool
	// AwaitedSince is since when clients of content that may be old wait until other nodes were asked
	// for something newer; zero if they do not wait.
	AwaitedSince time.Time

	asked time.Time           // when they were asked last, since the stream leads where it does; zero if never
	met   map[string]struct{} // the names of the nodes that were asked then, or since; nil if that is irrelevant
}

// Awaited reports whether clients wait until other nodes were asked.
func (o *Others) Awaited() bool { return !o.AwaitedSince.IsZero() }

// Asked records that all reachable other nodes were asked, and the names of those that have
// answered.
func (o *Others) Asked(now time.Time, nodes []string) {
	o.asked, o.met = now, make(map[string]struct{}, len(nodes))
	o.Meet(nodes)
}

// AskedAny records that they were asked, and that their names are irrelevant.
func (o *Others) AskedAny(now time.Time) { o.asked = now }

// Meet records that nodes were asked that had not been known before the control plane was asked.
func (o *Others) Meet(nodes []string) {
	if o.met == nil {
		return
	}
	for _, name := range nodes {
		o.met[name] = struct{}{}
	}
}

// Unmet reports whether the control plane was asked although a node was not.
func (o *Others) Unmet(node string) bool {
	_, met := o.met[node]
	return o.met != nil && !met
}

func (o *Others) forget() { o.asked, o.met = time.Time{}, nil }

// due reports whether they have to be asked, or asked again.
func (o *Others) due(now time.Time) bool { return o.Exist && now.Sub(o.asked) > AskedFor }

// late reports whether nodes that become known now are asked as well.
func (o *Others) late(now time.Time) bool { return now.Sub(o.asked) < UnaskedFor }
