package ops

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Warning is something that an operator should look at.
type Warning struct {
	// Level is error or warning, Kind what it is about: silence, node, config, differs,
	// certificate, control_plane, files, types, stale, behind, held, frozen, redis, rules or clients.
	Level string `json:"level"`
	Kind  string `json:"kind"`
	// Node is the node that it is about, if it is about one.
	Node string `json:"node,omitempty"`
	Text string `json:"text"`
	// Detail is more about it, in lines.
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	// Runbook is the entry of the runbook about it; empty if there is none.
	Runbook string `json:"runbook,omitempty"`
}

// Kinds of warnings. Nodes that do not answer, and clients that reject, are shown in
// other places as well.
const (
	AboutSilence = "silence"
	AboutClients = "clients"
	aboutOrigin  = "control_plane"
)

// The levels of warnings.
const (
	levelError   = "error"
	levelWarning = "warning"
)

// warnings are all that there are, the errors first.
func (o *Observed) warnings(rejections []Rejection) []Warning {
	all := []Warning{}
	add := func(level, kind, node, text, detail string, since time.Time) {
		all = append(all, Warning{Level: level, Kind: kind, Node: node, Text: text, Detail: detail, Since: since})
	}
	all = append(all, silences(o.Silent)...)
	all = append(all, o.Members.absences()...)
	for _, m := range o.Members.Members {
		if m.Draining {
			add(levelWarning, "node", m.Name, fmt.Sprintf("Node %s is draining: it hands over its keys, sheds its clients, and exits", m.Name), "", time.Time{})
		}
	}
	for _, m := range o.Members.Strays {
		add(levelError, "node", m.Name, fmt.Sprintf("Node %s is isolated: it serves clients but has left the tier; check its connection to Redis", m.Name), "", time.Time{})
		all[len(all)-1].Runbook = runbookRedis
	}
	all = append(all, differences(o.Members)...)
	all = append(all, o.Members.skews()...)
	rejecting := 0
	for i := range o.Answers {
		a := &o.Answers[i]
		all = append(all, a.warnings()...)
		rejecting += a.Sums.States[Nacked]
	}
	if rejecting > 0 {
		verb := "have"
		if rejecting == 1 {
			verb = "has"
		}
		why := make([]string, len(rejections))
		for i := range rejections {
			why[i] = rejections[i].String()
		}
		add(levelError, AboutClients, "", fmt.Sprintf("%s %s rejected (NACK) the newest version", count(rejecting, "client"), verb), strings.Join(why, "\n"), time.Time{})
	}
	slices.SortStableFunc(all, func(a, b Warning) int { return cmp.Compare(a.Level, b.Level) })
	return withRunbook(all)
}

// WarningsOf returns the warnings of a node about itself and about the tier as it knows it, without
// asking other nodes.
func WarningsOf(own NodeState, members Members) []Warning {
	return withRunbook(slices.Concat(own.warnings(), silences(members.Silent), members.absences(), differences(members), members.skews()))
}

// silences are the warnings about members that do not answer.
func silences(silent []Silent) (all []Warning) {
	for _, s := range silent {
		text := fmt.Sprintf("Node %s does not answer", s.Node)
		if s.Clients > 0 {
			text += fmt.Sprintf("; the states of its %s are unknown", count(s.Clients, "stream"))
		}
		all = append(all, Warning{Level: levelError, Kind: AboutSilence, Node: s.Node, Text: text, Detail: s.Error, Since: s.Since})
	}
	return all
}

// absences are the warnings about nodes that are missing.
func (m Members) absences() (all []Warning) {
	for _, one := range m.absent() {
		w := Warning{Level: levelWarning, Kind: "node", Node: one.Name, Detail: one.Error, Since: one.Heard, Runbook: runbookDown}
		switch {
		case !one.Listed:
			w.Text = fmt.Sprintf("Node %s disappeared without draining and does not answer", one.Name)
			if one.Clients > 0 {
				w.Text += fmt.Sprintf("; last report: %s", count(one.Clients, "stream"))
			}
		case one.Draining:
			w.Text = fmt.Sprintf("Node %s of tier.nodes has exited", one.Name)
		default:
			w.Level, w.Text = levelError, fmt.Sprintf("Node %s of tier.nodes does not answer", one.Name)
		}
		all = append(all, w)
	}
	return all
}

// differences are the warnings about nodes that differ from others.
func differences(m Members) (all []Warning) {
	for _, d := range m.Differences {
		detail := strings.Join(d.Parts, ", ")
		if m.Redis != nil && strings.Contains(detail, "upstream") {
			detail += "; if the nodes belong to two tiers, set another tier.redis.prefix for one tier"
		}
		all = append(all, Warning{
			Level: levelWarning, Kind: "differs", Node: d.Node, Since: d.Since,
			Text:   fmt.Sprintf("Node %s has a config mismatch with node %s", d.Node, d.From),
			Detail: detail,
		})
	}
	return all
}

// skews are the warnings about clocks.
func (m Members) skews() (all []Warning) {
	for _, s := range m.Clocks {
		by := (time.Duration(math.Abs(s.Ahead)) * time.Second).String()
		text := fmt.Sprintf("The clock of node %s is %s ahead of node %s", s.Node, by, s.From)
		if s.Ahead < 0 {
			text = fmt.Sprintf("The clock of node %s is %s behind node %s", s.Node, by, s.From)
		}
		all = append(all, Warning{Level: levelWarning, Kind: "node", Node: s.Node, Text: text, Detail: "synchronize the clocks, for example with NTP", Since: s.Since, Runbook: runbookClock})
	}
	return all
}

// warnings are those of one node.
func (a *NodeState) warnings() (all []Warning) {
	add := func(level, kind, text, detail string, since time.Time) {
		all = append(all, Warning{Level: level, Kind: kind, Node: a.Node, Text: text, Detail: detail, Since: since})
	}
	if s := a.Settings; s.Rejected != "" {
		add(levelError, "config", fmt.Sprintf("Node %s rejected its new configuration; the previous one stays active", a.Node), s.Rejected, s.RejectedAt)
	}
	if fields := a.Settings.Restart; len(fields) > 0 {
		add(levelWarning, "config", fmt.Sprintf("Node %s needs a restart for a part of its configuration", a.Node), strings.Join(fields, "\n"), time.Time{})
	}
	switch r := a.Redis; {
	case r != nil && r.Problem != "":
		add(levelError, "redis", fmt.Sprintf("Node %s cannot use Redis: %s; its clients are not affected", a.Node, r.Problem), r.Hint+"; Redis answered: "+r.Error, r.Since)
	case r != nil && !r.Up:
		add(levelError, "redis", fmt.Sprintf("Redis is unreachable from node %s; its clients are not affected", a.Node), r.Error, r.Since)
	case r != nil && r.Error != "":
		add(levelError, "redis", fmt.Sprintf("Redis rejects operations of node %s", a.Node), r.Error, r.Since)
	}
	if len(a.Foreign) > 0 {
		add(levelError, "redis", fmt.Sprintf("Node %s sees nodes of another tier in Redis under its own prefix", a.Node),
			"set another tier.redis.prefix for each tier, and the same token file for all nodes of one tier; nodes of the other tier: "+strings.Join(a.Foreign, ", "), a.ForeignSince)
	}
	if !a.Unheard.IsZero() {
		add(levelWarning, "node", fmt.Sprintf("Node %s does not see changes of the tier; it uses its last list of nodes", a.Node), "", a.Unheard)
		all[len(all)-1].Runbook = runbookRedis
	}
	for _, c := range a.Certificates {
		switch {
		case c.Expired:
			add(levelError, "certificate", fmt.Sprintf("The certificate of node %s for %s has expired; connections that verify it fail", a.Node, c.Field), "", c.Until)
		case c.NotYetValid:
			add(levelError, "certificate", fmt.Sprintf("The certificate of node %s for %s is not valid before %s; connections that verify it fail", a.Node, c.Field, c.From.UTC().Format(time.RFC3339)), "", time.Time{})
		default:
			add(levelWarning, "certificate", fmt.Sprintf("The certificate of node %s for %s expires at %s and has not been renewed", a.Node, c.Field, c.Until.UTC().Format(time.RFC3339)), "", time.Time{})
		}
	}
	k := a.Keys
	switch {
	case !a.CutSince.IsZero():
		text := fmt.Sprintf("Node %s cannot reach the control plane", a.Node)
		if k.Down > 0 {
			text += fmt.Sprintf(" and has no upstream stream for %s; clients keep their last configuration", count(k.Down, "key"))
		}
		add(levelError, aboutOrigin, text, strings.Join(a.Unreachable, "\n"), a.CutSince)
		all[len(all)-1].Runbook = runbookAllKeys
	case k.Down == 0 && len(a.Unreachable) > 0: // by another server, or for nobody yet
		add(levelWarning, aboutOrigin, fmt.Sprintf("Node %s cannot reach a server of the control plane", a.Node), strings.Join(a.Unreachable, "\n"), time.Time{})
	case k.Down > 0:
		add(levelError, aboutOrigin, fmt.Sprintf("Node %s has no upstream stream for %s; clients keep their last configuration", a.Node, count(k.Down, "key")), k.DownError, k.DownSince)
	}
	if len(a.Problems) > 0 {
		add(levelError, "files", fmt.Sprintf("Node %s cannot use files of its upstream directory", a.Node), strings.Join(a.Problems, "\n"), time.Time{})
	}
	if len(a.SeparateTypes) > 0 {
		add(levelWarning, "types", fmt.Sprintf("Clients of node %s subscribe to types that the control plane does not seem to support; it closes streams with these types", a.Node), strings.Join(a.SeparateTypes, "\n"), time.Time{})
	}
	if k.Empty > 0 {
		add(levelError, "empty", fmt.Sprintf("Node %s has no configuration for %s with clients: it has no upstream stream, and no other node has the configuration", a.Node, count(k.Empty, "key")), "", time.Time{})
	}
	if a.LastGood != "" {
		add(levelError, "last_good", fmt.Sprintf("Node %s cannot write last known good; check last_known_good.directory or tier.redis. After a restart without a control plane, the node would serve an older state", a.Node), a.LastGood, a.LastGoodSince)
	}
	if k.Stale > 0 {
		add(levelWarning, "stale", fmt.Sprintf("Node %s serves last known good for %s; the control plane has not confirmed it", a.Node, count(k.Stale, "key")), "", time.Time{})
	}
	if k.Behind > 0 {
		add(levelError, "behind", fmt.Sprintf("Node %s lacks the newest content of %s, such as %s; its clients have older configuration than those of other nodes; see 'xdsrelay keys' for its source", a.Node, count(k.Behind, "key"), k.BehindKey), "", k.BehindSince)
	}
	if k.Held > 0 {
		add(levelWarning, "held", fmt.Sprintf("Node %s holds back removals of %s; approve them with 'xdsrelay removals approve KEY'", a.Node, count(k.Held, "key")), "", time.Time{})
	}
	if a.Frozen != nil {
		all = append(all, a.Frozen.warning(a.Node))
	}
	all = append(all, a.formerWarnings()...)
	if a.NotReady != "" && a.NotReady != "draining" {
		add(levelError, "node", fmt.Sprintf("Node %s is not ready", a.Node), a.NotReady, time.Time{})
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
