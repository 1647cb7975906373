package relay

import (
	"context"
	"maps"
	"slices"

	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/ops"
	"xdsrelay/shard"
)

// Most events are lines of the log where the fact is decided. Here are those that are seen by
// looking: nodes that begin to drain, warnings, and certificates that expire.

// watchDraining logs when other nodes begin to drain, until ctx ends: the node itself takes its
// events with it.
func (n *Node) watchDraining(ctx context.Context) {
	draining := make(map[string]bool)
	for first := true; ; first = false {
		changed := n.members.Changed()
		members := n.members.View().Members()
		for _, m := range members {
			if m.Draining && !draining[m.Name] && !first && m.Name != n.name {
				n.part(logs.Tier).Info("another node is draining", events.Key, events.NodeDraining, "member", m.Name)
			}
			draining[m.Name] = m.Draining
		}
		maps.DeleteFunc(draining, func(name string, _ bool) bool {
			return !slices.ContainsFunc(members, func(m shard.Member) bool { return m.Name == name })
		})
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// copyEvents copies the events of other nodes, which would be lost with them.
func (n *Node) copyEvents(ctx context.Context, from func(node string) bool) {
	n.events.Copy(n.model.EventsToCopy(ctx, n.events.Copied(), from))
}

// noted are the warnings and certificates that were seen when the node looked last. It is for the
// goroutine of samples alone.
type noted struct {
	warnings     map[string]*notedWarning // by kind
	certificates map[string]string        // by use: what the event said
}

// notedWarning is a warning about this node.
type notedWarning struct {
	text string
	// seen counts the looks; the second one makes an event, so that what is over by then, such as
	// a node that is starting, makes none.
	seen int
}

// looksBefore is how often a warning is seen until it is an event.
const looksBefore = 2

// lookForWarnings logs which warnings about this node have started or ended.
func (n *Node) lookForWarnings() {
	health := n.stateWithoutClients()
	n.noteCertificates(health.Certificates)
	was := n.noted.warnings
	n.noted.warnings = make(map[string]*notedWarning)
	for _, w := range ops.EventWarnings(&health) {
		one := was[w.Kind]
		if one == nil {
			one = &notedWarning{}
		}
		one.text = w.Text
		if one.seen++; one.seen == looksBefore {
			n.log.Warn("a warning about this node started", events.Key, events.WarningStarted, "warning", w.Kind, "text", w.Text, "detail", w.Detail)
		}
		n.noted.warnings[w.Kind] = one
	}
	for kind, one := range was {
		if n.noted.warnings[kind] == nil && one.seen >= looksBefore {
			n.log.Info("a warning about this node ended", events.Key, events.WarningEnded, "warning", kind, "text", one.text)
		}
	}
}

// noteCertificates logs which certificates have expired or are about to.
func (n *Node) noteCertificates(bad []ops.BadCertificate) {
	was := n.noted.certificates
	n.noted.certificates = make(map[string]string)
	for _, c := range bad {
		if c.NotYetValid {
			continue // a warning says so
		}
		kind := events.CertificateExpiring
		if c.Expired {
			kind = events.CertificateExpired
		}
		is := string(kind) + c.Until.String()
		if was[c.Field] != is {
			n.part(logs.Security).Warn("a certificate of this node has expired or is about to", events.Key, kind, "use", c.Field, "until", c.Until)
		}
		n.noted.certificates[c.Field] = is
	}
}
