package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/fleet"
)

// Warning is something that an operator should look at.
type Warning struct {
	// Level is error or warning, Kind what it is about: silence, node, config, origin,
	// files, types, stale, held, redis or clients.
	Level string `json:"level"`
	Kind  string `json:"kind"`
	// Node is the node that it is about, if it is about one.
	Node string `json:"node,omitempty"`
	Text string `json:"text"`
	// Detail is more about it, in lines.
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

// Kinds of warnings that other places tell as well: nodes that do not answer, and
// clients that reject.
const (
	AboutSilence = "silence"
	AboutClients = "clients"
)

// The levels of warnings.
const (
	levelError   = "error"
	levelWarning = "warning"
)

// unheard is after how long it is doubtful who is in the tier.
const unheard = 10 * time.Second

// warnings are all that there are, the errors first.
func (o observed) warnings() []Warning {
	all := []Warning{}
	add := func(level, kind, node, text, detail string, since time.Time) {
		all = append(all, Warning{Level: level, Kind: kind, Node: node, Text: text, Detail: detail, Since: since})
	}
	for _, s := range o.silent {
		text := fmt.Sprintf("Node %s does not answer", s.Node)
		if s.Clients > 0 {
			text += fmt.Sprintf("; how its %s stand is not known", count(s.Clients, "stream"))
		}
		add(levelError, AboutSilence, s.Node, text, s.Error, time.Time{})
	}
	for _, m := range o.members.Members {
		switch {
		case m.Draining:
			add(levelWarning, "node", m.Name, fmt.Sprintf("Node %s is draining: it hands its keys over, sends its clients away, and ends", m.Name), "", time.Time{})
		case m.Cut:
			add(levelError, "node", m.Name, fmt.Sprintf("Node %s cannot reach the origin", m.Name), "", time.Time{})
		}
	}
	for _, m := range o.members.Strays {
		add(levelError, "node", m.Name, fmt.Sprintf("Node %s serves clients and is no member of the tier any more: can it reach Redis?", m.Name), "", time.Time{})
	}
	if o.now.Sub(o.members.Heard) > unheard && !o.members.Heard.IsZero() {
		add(levelWarning, "node", o.members.Self, fmt.Sprintf("Node %s cannot find out who is in the tier; what is shown was true then", o.members.Self), "", o.members.Heard)
	}
	if since, why, down := redisDown(o.members.Redis); down {
		add(levelError, "redis", o.members.Self, fmt.Sprintf("Redis is out of reach for node %s; clients are served all the same", o.members.Self), why, since)
	}
	rejecting := 0
	for i := range o.answers {
		a := &o.answers[i]
		all = append(all, a.warnings()...)
		rejecting += a.Sums.States[fleet.Nacked]
	}
	if rejecting > 0 {
		verb := "reject"
		if rejecting == 1 {
			verb = "rejects"
		}
		add(levelError, AboutClients, "", fmt.Sprintf("%s %s what was sent", count(rejecting, "client"), verb), "", time.Time{})
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return cmp.Compare(a.Level, b.Level) })
	return all
}

// warnings are those of one node.
func (a *NodeState) warnings() (all []Warning) {
	add := func(level, kind, text, detail string, since time.Time) {
		all = append(all, Warning{Level: level, Kind: kind, Node: a.Node, Text: text, Detail: detail, Since: since})
	}
	if s := a.Settings; s.Refused != "" {
		add(levelError, "config", fmt.Sprintf("Node %s refused its new configuration; the one before stays in force", a.Node), s.Refused, s.RefusedAt)
	}
	if fields := a.Settings.Restart; len(fields) > 0 {
		add(levelWarning, "config", fmt.Sprintf("Node %s has to be restarted for a part of its configuration", a.Node), strings.Join(fields, "\n"), time.Time{})
	}
	k := a.Keys
	switch {
	case k.Down == 0 && len(a.Unreachable) > 0: // by another server, or for nobody yet
		add(levelWarning, "origin", fmt.Sprintf("Node %s cannot reach a server of the control plane", a.Node), strings.Join(a.Unreachable, "\n"), time.Time{})
	case k.Down > 0:
		add(levelError, "origin", fmt.Sprintf("Node %s has no stream for %s; clients keep what they have", a.Node, count(k.Down, "key")), k.DownError, k.DownSince)
	}
	if len(a.Problems) > 0 {
		add(levelError, "files", fmt.Sprintf("Node %s cannot use files of its directory", a.Node), strings.Join(a.Problems, "\n"), time.Time{})
	}
	if len(a.Apart) > 0 {
		add(levelWarning, "types", fmt.Sprintf("Clients of node %s ask for types that the control plane seems not to know; it ends the streams on which it is asked for them", a.Node), strings.Join(a.Apart, "\n"), time.Time{})
	}
	if k.Stale > 0 {
		add(levelWarning, "stale", fmt.Sprintf("Node %s serves the last known good state of %s, which the origin has not confirmed", a.Node, count(k.Stale, "key")), "", time.Time{})
	}
	if k.Held > 0 {
		add(levelWarning, "held", fmt.Sprintf("Node %s holds back removals of %s; 'xdsrelay release KEY' does them", a.Node, count(k.Held, "key")), "", time.Time{})
	}
	if a.NotReady != "" && a.NotReady != "draining" {
		add(levelError, "node", fmt.Sprintf("Node %s is not ready for clients", a.Node), a.NotReady, time.Time{})
	}
	return all
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
