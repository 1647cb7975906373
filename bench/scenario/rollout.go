package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"xdsrelay/bench/content"
	"xdsrelay/bench/drive"
	"xdsrelay/bench/fleet"
	"xdsrelay/bench/report"
)

// reactErrors is the reaction of clients that accept a revision, and then report failed requests.
const reactErrors = "errors"

// The load reports of clients with it, and of the others.
var loadReports = fleet.Reports{Requests: 200, Errors: 0.1, Exposed: 5}

// rolloutConfig is what the configuration of a node has for last known good, in a folder or in the Redis
// of the tier, and for a rollout policy.
func (b *bed) rolloutConfig(dir string) string {
	setup := b.setup
	if !setup.Kept {
		return ""
	}
	config := fmt.Sprintf("last_known_good: {store: directory, directory: %q}\n", dir)
	if setup.Tier {
		config = "last_known_good: {store: redis}\n"
	}
	if setup.Bake == 0 {
		return config
	}
	return config + fmt.Sprintf(`aggregation:
  rules:
    - {name: bench, key: node.cluster, rollout: bench}
rollout:
  budget: [1%%, 10%%, 100%%]
  policies:
    - name: bench
      steps:
        - {share: 1%%, bake: %[1]ds}
        - {share: 10%%, bake: %[1]ds}
      final_bake: %[1]ds
`, setup.Bake)
}

const (
	// heldEach is the time between two looks at a rollout, and untilQuiet how long is waited afterwards
	// for clients that receive the revision nevertheless.
	heldEach   = 100 * time.Millisecond
	untilQuiet = 2 * time.Second
)

// release changes a cluster to which clients react, and waits for what becomes of it.
func (r *runner) release(ctx context.Context, s Step) (took, error) {
	b, began := r.bed, time.Now()
	before, err := b.stats(ctx)
	if err != nil {
		return took{}, err
	}
	how := s.React
	switch {
	case b.setup.Bake == 0:
		how = fleet.Accept
	case how == reactErrors:
		if err := b.fleet.report(ctx, loadReports); err != nil {
			return took{}, err
		}
		// Reports from before the change, too.
		if err := pause(ctx, 2*time.Duration(b.setup.ReportEvery)*time.Millisecond); err != nil {
			return took{}, err
		}
		how = fleet.Accept
	}
	if err := b.fleet.react(ctx, fleet.Reaction{From: before.Revision + 1, How: how, Within: s.Within}); err != nil {
		return took{}, err
	}
	change := content.Change{Kind: content.One, Type: content.ClusterURL}
	var changed drive.Changed
	if err := b.server.Call(ctx, drive.OrderChange, change, &changed); err != nil {
		return took{}, err
	}
	out := &report.Rollout{How: s.React}
	if b.setup.Bake == 0 {
		out.How = fleet.Accept
	}
	if out.How == fleet.Accept {
		elapsed, err := b.fleet.await(ctx, changed.Revision, &change, s.For)
		if err == nil {
			out.Complete = seconds(elapsed)
		} else if !errors.Is(err, errMissing) {
			return took{}, err
		}
	}
	var held []time.Time
	if out.How != fleet.Accept {
		if held, err = b.untilHeld(ctx, s.For); err != nil {
			return took{}, err
		}
		if err := pause(ctx, untilQuiet); err != nil {
			return took{}, err
		}
	}
	seen, err := b.fleet.exposure(ctx, time.Duration(b.setup.Bake)*time.Second*9/10) // the bake begins before the first client has it
	if err != nil {
		return took{}, err
	}
	out.Exposed, out.Again, out.Early = seen.Clients, seen.Again, seen.Early
	if out.How != fleet.Accept {
		out.NotHeld = b.setup.Keys - len(held)
		from := seen.Reacted
		if from.IsZero() {
			from = seen.First
		}
		if len(held) > 0 && !from.IsZero() {
			out.HeldAfter = max(held[0].Sub(from).Seconds(), 0.001)
		}
	}
	after, err := b.stats(ctx)
	if err != nil {
		return took{}, err
	}
	out.NACKs = after.Nacks - before.Nacks
	for _, message := range after.Rejections[min(len(before.Rejections), len(after.Rejections)):] {
		if explains(message, s.React) {
			out.Explained++
		}
	}
	return took{time: time.Since(began), changes: 1, rollout: out}, nil
}

// explains reports whether the message of a NACK names a cluster, and the reason of a client if it had
// one.
func explains(message, how string) bool {
	named := strings.Contains(message, content.Name(content.ClusterURL, 0, 0)) || strings.Contains(message, content.Name(content.ClusterURL, 0, 1))
	return named && (how != fleet.Reject || strings.Contains(message, fleet.RejectionText))
}

// untilHeld waits until the rollouts of all keys have failed, or for a time, and returns when they did,
// the first one first.
func (b *bed) untilHeld(ctx context.Context, most time.Duration) (held []time.Time, err error) {
	deadline := time.Now().Add(most)
	for {
		if held, err = b.held(ctx); err != nil || len(held) >= b.setup.Keys || time.Now().After(deadline) {
			return held, err
		}
		if err := pause(ctx, heldEach); err != nil {
			return nil, err
		}
	}
}

// held is when rollouts failed that are held now, the first one first.
func (b *bed) held(ctx context.Context) (held []time.Time, err error) {
	for _, n := range b.nodes {
		var answer struct {
			Keys []struct {
				Rollout *struct {
					Role    string `json:"role"`
					State   string `json:"state"`
					History []struct {
						At   time.Time `json:"at"`
						What string    `json:"what"`
					} `json:"history"`
				} `json:"rollout"`
			} `json:"keys"`
		}
		query := ""
		if b.setup.Keys == 1 {
			query = "?key=" + url.QueryEscape(content.KeyName(0))
		}
		text, err := get(ctx, "http://"+n.admin+"/api/v1/rollout"+query)
		if err == nil {
			err = json.Unmarshal([]byte(text), &answer)
		}
		if err != nil {
			return nil, fmt.Errorf("rollouts of %s: %w", n.name, err)
		}
		for _, k := range answer.Keys {
			if k.Rollout == nil || !strings.HasPrefix(k.Rollout.State, "Held") {
				continue
			}
			for _, d := range k.Rollout.History {
				if d.What == "failed" {
					held = append(held, d.At)
				}
			}
		}
		if b.setup.Keys == 1 && len(held) > 0 {
			return held[len(held)-1:], nil
		}
	}
	slices.SortFunc(held, time.Time.Compare)
	return held, nil
}
