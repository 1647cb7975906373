package relay

import (
	"encoding/json"
	"fmt"

	"xdsrelay/fanout"
	"xdsrelay/relay/aggregation"
	"xdsrelay/relay/cache"
	"xdsrelay/relay/events"
	"xdsrelay/relay/logs"
	"xdsrelay/relay/redact"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/rollout"
	"xdsrelay/relay/rollouts"
	"xdsrelay/shard/lastgood"
)

// buildControl makes what carries out rollouts, with the records of an earlier process.
func (n *Node) buildControl() error {
	var earlier rollouts.Records
	cfg := rollouts.Config{
		Rules: n.rolloutRule, Limits: func() rollout.Limits { return n.policies.Load().Limits },
		Clients: n.fanout, Total: n.fanout.Count, Group: func(key aggregation.Key) *cache.Group { return n.cache.GroupOf(key) },
		Ask: n.askAboutRollout, Decided: n.rolloutDecided, Effective: n.rolloutEffective, Logger: n.part(logs.Node),
	}
	if cfg.Tier = n.rolloutTier(); cfg.Tier != nil {
		cfg.Total = n.clientsOfAll
	} else if n.records.load != nil {
		text, err := n.records.load()
		if err != nil {
			return err
		}
		if len(text) > 0 {
			err := json.Unmarshal(text, &earlier)
			for _, r := range earlier.Keys {
				if err == nil {
					err = r.Check()
				}
			}
			if err != nil {
				return fmt.Errorf("the records of rollouts in the last known good directory are damaged; remove %s to start without them: %w", lastgood.RolloutsFile, err)
			}
		}
		cfg.Save = func(r rollouts.Records) error {
			text, err := json.Marshal(r)
			if err != nil {
				return err
			}
			return n.records.save(text)
		}
	}
	n.control.Store(rollouts.New(cfg, earlier))
	n.add(part{run: n.control.Load().Run})
	return nil
}

// rolloutRecords are where the records of rollouts outlive the process; nil without a last known good
// directory.
type rolloutRecords struct {
	load func() ([]byte, error)
	save func([]byte) error
}

// rolloutRule is how changes are released to the clients of a rule of the aggregation.
func (n *Node) rolloutRule(name string) rollouts.Rule {
	policy, selector := n.rolloutPolicy(name), n.rolloutSelector(name)
	if policy == nil {
		return rollouts.Rule{}
	}
	return rollouts.Rule{Policy: policy, Traits: func(a *fanout.Affected) rollouts.Traits {
		t, err := selector.Of(a.Client.Node(), a.By)
		if err != nil {
			n.part(logs.Clients).Debug("an expression of a rollout policy fails for a client; it is no canary", "policy", policy.Name, "node", redact.Short(a.ID, maxOrderText), "error", err)
		}
		return rollouts.Traits{Eligible: t.IsEligible(), Group: t.Group, Version: t.Version}
	}}
}

// keyed is called when a client of a rule has joined a key.
func (n *Node) keyed(g *cache.Group, rule string) {
	g.SetRule(rule)
	if n.policies.Load().Len() > 0 {
		n.control.Load().Attach(g, rule)
	}
}

// unproven reports whether the content of a type must not become last known good yet.
func (n *Node) unproven(g *cache.Group, t *resource.Type) bool {
	c := n.control.Load()
	return c != nil && c.IsUnproven(g, t)
}

// rolloutDecided logs a decision about a revision.
func (n *Node) rolloutDecided(d rollouts.Decision) {
	about := []any{
		"key", d.Key, "revision", d.Revision, "decision", d.What, "state", d.State, "canaries", d.Canaries, "affected", d.Affected,
		"reason", redact.Short(d.Why, maxOrderText), "identity", redact.Short(d.By, maxOrderText),
	}
	log := n.part(logs.Node)
	if d.Observed {
		n.rolloutObserved(&d, about)
		return
	}
	switch d.What {
	case "failed":
		n.measureHold(&d)
		if len(d.Rejections) > 0 {
			r := &d.Rejections[0]
			about = append(about, "node", r.Client, "type", r.Type, "error", r.Reason, "resources", r.Resources)
		}
		log.Warn("a rollout failed: canaries return to the revision before, and no other client gets this one", append(about, events.Key, events.RolloutFailed)...)
	case "started":
		log.Info("a rollout started", append(about, events.Key, events.RolloutStarted)...)
	case "promoted", rollouts.Promote:
		log.Info("a rollout released a revision to all clients", append(about, events.Key, events.RolloutPromoted)...)
	default:
		log.Info("decision about a rollout", about...)
	}
}

// rolloutObserved logs a decision that was not carried out, since the policy only observes.
func (n *Node) rolloutObserved(d *rollouts.Decision, about []any) {
	log := n.part(logs.Node)
	switch d.What {
	case "failed":
		if len(d.Rejections) > 0 {
			r := &d.Rejections[0]
			about = append(about, "node", r.Client, "type", r.Type, "error", r.Reason, "resources", r.Resources)
		}
		log.Warn("observed only: a rollout would have failed, and the revision would have reached no other client; all clients have it, since the mode of the policy is observe", about...)
	case "passed":
		log.Info("observed only: a bake of a rollout would have passed", about...)
	default:
		log.Info("observed only: a rollout would have made a decision; nothing is held back", about...)
	}
}
