package relay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/metric"

	"xdsrelay/relay/hooks"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/rollouts"
	"xdsrelay/relay/trace"
)

// eventTypes is the prefix of the types of CloudEvents. What follows is one of [rollouts.Decisions].
const eventTypes = "xdsrelay.rollout."

// rolloutEvent is the data of the CloudEvent of a decision.
type rolloutEvent struct {
	Key      string        `json:"key"`
	Revision string        `json:"revision,omitempty"`
	Policy   string        `json:"policy"`
	Decision string        `json:"decision"`
	State    string        `json:"state"`
	Step     int           `json:"step"`
	Steps    int           `json:"steps"`
	Share    rollout.Share `json:"share"`
	Canaries int           `json:"canaries"`
	Affected int           `json:"affected"`
	Reason   string        `json:"reason,omitempty"`
	By       string        `json:"by,omitempty"`
	Node     string        `json:"node"`

	rollouts.Trouble
}

// buildRolloutEvents makes what sends decisions about rollouts to another system. Without a webhook it sends
// nothing. Rollouts are traced like updates.
func (n *Node) buildRolloutEvents() {
	n.traced = rolloutTraces{tracer: n.metrics.Tracer(), open: make(map[string]*trace.Past)}
	n.decisions = hooks.NewSender(n.hookTarget.Load, n.part(logs.Node))
	n.add(part{watch: n.decisions.Run})
}

// rolloutEffective sends and traces a decision that took effect.
func (n *Node) rolloutEffective(d *rollouts.Effective) {
	n.decisions.Send(n.eventOf(d))
	n.traced.add(d)
}

// eventOf makes the event of a decision. All texts of it are bounded, and without secrets.
func (n *Node) eventOf(d *rollouts.Effective) *hooks.Event {
	about := &rolloutEvent{
		Key: d.Key, Revision: d.Revision, Policy: d.Policy, Decision: d.What, State: d.State, Step: d.Step, Steps: d.Steps, Share: d.Share,
		Canaries: d.Canaries, Affected: d.Affected, Reason: redact.Short(d.Why, maxOrderText), By: redact.Short(d.By, maxOrderText), Node: n.name,
		Trouble: d.Trouble.Bounded(),
	}
	return &hooks.Event{
		ID: eventID(&d.Decision), Source: "/xdsrelay/nodes/" + url.PathEscape(n.name), Type: eventTypes + d.What, Subject: d.Key, Time: d.At, Data: about,
	}
}

// eventID is made of what identifies a decision, so that history and events have the same one.
func eventID(d *rollouts.Decision) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %s", d.Key, d.Revision, d.What, d.At.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:16])
}

// observeRolloutEvents adds the metrics of what is sent.
func (n *Node) observeRolloutEvents(meter metric.Meter) error {
	c := &counted{meter: meter}
	sent := c.whole("xdsrelay.rollout.events", "Events for the webhook of rollout.events. delivered: the webhook accepted it. rejected: the webhook rejected it for its content, so it is not sent again. dropped: the queue was full, or the node ended.")
	retries := c.whole("xdsrelay.rollout.event_retries", "Attempts to send an event to the webhook of rollout.events that failed. The event is sent again.")
	g := &gauges{meter: meter, all: c.all, errs: c.errs}
	queued := g.whole("xdsrelay.rollout.queued_events", "Events that wait for the webhook of rollout.events.")
	return g.read(func(o metric.Observer) {
		s := n.decisions.Sent()
		for result, count := range map[string]uint64{"delivered": s.Delivered, "rejected": s.Rejected, "dropped": s.Dropped} {
			o.ObserveInt64(sent, int64(count), by("result", result))
		}
		o.ObserveInt64(retries, int64(s.Retries))
		o.ObserveInt64(queued, int64(s.Queued))
	})
}
