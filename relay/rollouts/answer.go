package rollouts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
)

// The control plane gets a NACK of what canaries reject, in place of an ACK that waits for scouts, or as a
// report after the ACK (K1, K2). The node that decides has the stream to the control plane, too.

const (
	// maxUpstreamText bounds the message of one client, and maxUpstreamReasons the messages of a type.
	maxUpstreamText    = 1 << 10
	maxUpstreamReasons = 3
	// maxUpstreamName bounds a resource name.
	maxUpstreamName = 256
)

// waitOf is how long the ACK of a response with a change may wait for scouts.
func waitOf(p *rollout.Policy) time.Duration {
	if p.Upstream.Answer != rollout.AfterScouts || p.NeedsApproval(0) {
		return 0
	}
	return p.Upstream.Within
}

// acknowledges ends the wait of the control plane for what is pending: its changes are no revision soon, or
// wait for something else than scouts.
func (k *key) acknowledges(o *cache.Overlay) { o.Judge(cache.VerdictPasses, nil) }

// acknowledgesOnce is acknowledges for the revision on its way.
func (k *key) acknowledgesOnce() {
	if k.overlay != nil && k.acknowledged != k.overlay {
		k.acknowledged = k.overlay
		k.acknowledges(k.overlay)
	}
}

// haveScoutsAnswered reports whether all scouts have answered, and the revision goes on.
func (k *key) haveScoutsAnswered() bool {
	if k.state.Phase != rollout.Scouting || k.state.Need != rollout.Bake || k.verdict.Outcome == rollout.Fails {
		return false
	}
	return slices.ContainsFunc(k.verdict.Findings, func(f rollout.Finding) bool {
		return f.Signal == rollout.AnswerSignal && f.Outcome == rollout.Passes
	})
}

// complaint returns what the control plane gets about a revision that fails, before it is taken back; nil if
// it got that before. It has at most one about each revision.
func (k *key) complaint(v *rollout.Verdict) func() {
	o, revision := k.overlay, k.state.Run.Revision.String()
	if o == nil || slices.ContainsFunc(k.history, func(d Decision) bool { return d.What == "failed" && d.Revision == revision }) {
		return func() { k.acknowledges(o) }
	}
	c := complaint{revision: revision, verdict: v, trouble: k.trouble(), rejected: k.counts.Canary.NACKs, canaries: max(k.counts.Canary.Clients, len(k.state.Run.Canaries.Hashes)), overlay: o}
	policy := k.state.Run.Policy
	c.who = "canaries"
	switch {
	case k.state.Phase == rollout.Proving:
		c.who = "clients"
		c.consequence = "all clients return to the revision before"
	case policy.OnFail == rollout.HoldThere:
		c.consequence = "they keep it until an operator decides"
	default:
		c.consequence = "rolled back"
	}
	if k.state.Phase != rollout.Proving {
		c.others = k.arms.without(k.people.affected, &k.state.Run.Canaries)
	}
	is := cache.VerdictFailsInTime
	if policy.Upstream.LateNACK {
		is = cache.VerdictFails
	}
	return func() { o.Judge(is, c.about) }
}

// without returns how many of some clients never got the candidate in the step, and are not about to.
func (a *arms) without(all map[rollout.Hash]bool, canaries *rollout.Roster) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for h := range all {
		if !a.seen[0][h] && !canaries.Has(h) {
			n++
		}
	}
	return n
}

// complaint is why a revision fails, for the control plane.
type complaint struct {
	revision    string
	verdict     *rollout.Verdict
	trouble     Trouble
	rejected    int // canaries that have rejected any type
	canaries    int
	others      int    // affected clients that never got it
	who         string // has it
	consequence string
	overlay     *cache.Overlay
	changes     []cache.OverlayChange // of overlay, once they are needed
}

// about returns the message about a type: which resources, what canaries say, how many, and what has become
// of it. It is empty if canaries have rejected other types only. Node ids are no part of it.
func (c *complaint) about(t *resource.Type) string {
	var b strings.Builder
	switch {
	case c.isRejected():
		reasons, rejected := c.reasons(t)
		if rejected == 0 {
			return ""
		}
		fmt.Fprintf(&b, "%s; %s of %s %s rejected it", strings.Join(reasons, "; "), thousands(rejected), thousands(max(c.canaries, rejected)), c.who)
	default:
		fmt.Fprintf(&b, "%s; %s with it are not well: %s", c.names(t, nil), c.who, redact.Short(c.verdict.Reasons(), maxUpstreamText))
	}
	fmt.Fprintf(&b, "; %s", c.consequence)
	switch {
	case c.others == 1:
		b.WriteString("; 1 other client is not affected")
	case c.others > 1:
		fmt.Fprintf(&b, "; %s other clients are not affected", thousands(c.others))
	}
	fmt.Fprintf(&b, " (%s)", c.revision)
	return b.String()
}

// isRejected reports whether rejections are why the revision fails.
func (c *complaint) isRejected() bool {
	return slices.ContainsFunc(c.verdict.Findings, func(f rollout.Finding) bool {
		return f.Signal == rollout.NACKSignal && f.Outcome == rollout.Fails
	})
}

// reasons returns the different messages about a type, with resources, and how many clients have rejected it.
func (c *complaint) reasons(t *resource.Type) (all []string, rejected int) {
	clients := make(map[string]bool)
	for i := range c.trouble.Rejections {
		r := &c.trouble.Rejections[i]
		if r.Type != t.URL {
			continue
		}
		clients[r.Client] = true
		text := c.names(t, r.Resources) + ": " + redact.Short(r.Reason, maxUpstreamText)
		if len(all) < maxUpstreamReasons && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if rejected = len(clients); rejected == maxTrouble {
		rejected = max(rejected, c.rejected) // the others are not listed
	}
	return all, rejected
}

// names returns the names of a type that are mentioned, or else the first of those that the revision changes.
func (c *complaint) names(t *resource.Type, mentioned []string) string {
	rest := 0
	if len(mentioned) == 0 {
		if c.changes == nil {
			c.changes = c.overlay.Changes()
		}
		for _, change := range c.changes {
			switch {
			case change.Type != t:
			case len(mentioned) < maxMentioned:
				mentioned = append(mentioned, change.Name)
			default:
				rest++
			}
		}
	}
	var all []string
	for _, n := range mentioned {
		all = append(all, redact.Short(n, maxUpstreamName))
	}
	text := strings.Join(all, ", ")
	if rest > 0 {
		text += fmt.Sprintf(" and %s more", thousands(rest))
	}
	return text
}

// thousands writes a number as people read it: 9,997.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
