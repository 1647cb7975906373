package relay

import (
	"context"
	"net/url"
	"time"

	"xdsrelay/fanout/rest"
	"xdsrelay/relay/ops"
)

// askVisits is the question for who polled a node of late.
const askVisits = "visits"

// lately is of when a node tells its visits: of what others asked for last as well, and
// the time before in case that they could not.
const lately = 3 * agreeEvery

// visitors is what a node answers.
type visitors struct {
	Node   string            `json:"node"`
	Visits []rest.RecentPoll `json:"visits"`
}

// answerVisits answers what other nodes ask.
func (n *Node) answerVisits() {
	n.tier.Handle(askVisits, func(context.Context, url.Values) (any, error) {
		v := visitors{Node: n.name}
		if n.polling != nil {
			v.Visits = n.polling.server.RecentPolls(lately)
		}
		return v, nil
	})
}

// lookForVisits forgets the clients that have polled other nodes since.
func (n *Node) lookForVisits(ctx context.Context) {
	if n.polling == nil {
		return
	}
	asked := time.Now()
	answers, _ := ops.AskAll[visitors](ctx, n.everybody(), askVisits, url.Values{}, func(node string) bool { return node != n.name })
	took := time.Since(asked) // they are so much older now, at most
	for _, a := range answers {
		for i := range a.Visits {
			a.Visits[i].Ago += took
		}
		n.polling.server.PolledElsewhere(a.Visits)
	}
}
