package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// newRolloutCmd is about what clients see of what control planes send.
func (a *app) newRolloutCmd() *cobra.Command {
	cmd := newParentCmd("rollout", "Freeze keys, undo changes, steer rollouts, and show what is held back",
		a.newRolloutStatusCmd(), a.newRolloutPlanCmd(), a.newRolloutHistoryCmd(), a.newRolloutDiffCmd(), a.newFreezeCmd(), a.newUnfreezeCmd(), a.newUndoCmd(),
		a.newSteerCmd(ops.OrderApprove, "Make the step that waits for an approval", "Make the step of a rollout that waits for an approval: policies with the mode manual wait\nbefore each step, others before those with approve.", false),
		a.newSteerCmd(ops.OrderPause, "Let no further client get a new revision", "Let no further client get the new revision of a key. Canaries keep it, and a failure still takes it\nback. 'xdsrelay rollout resume' continues; the step in progress then starts its bake again.", true),
		a.newResumeCmd(),
		a.newSteerCmd(ops.OrderAbort, "End a rollout: canaries get the stable revision", "End the rollout of a key: canaries get the stable revision, and the new one is refused until\nthe control plane sends something else or 'xdsrelay rollout retry'. During the final bake, all\nclients get the revision before.", true),
		a.newSteerCmd(ops.OrderRetry, "Try a refused revision again", "Try a refused revision again, starting with its scouts.", false),
		a.newPromoteCmd())
	cmd.Long = "Freeze keys, undo changes, steer rollouts, and show what is held back. While a key is frozen,\n" +
		"its clients keep their listeners, routes and clusters whatever the control plane sends;\n" +
		"endpoints and secrets pass. A rollout policy (aggregation.rules[].rollout) releases changes to\n" +
		"a few clients first. In a tier with Redis, an order to one node holds on all of them."
	return cmd
}

// rolloutKey is the argument of a command about one key or all.
type rolloutKey struct {
	all    bool
	reason string
}

func (k *rolloutKey) args(_ *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return usageError{fmt.Errorf("got %d keys, expected one", len(args))}
	case len(args) == 1 == k.all:
		return usageError{errors.New("expected a KEY or --all; " + keysHint)}
	}
	return nil
}

func (k *rolloutKey) query(args []string) url.Values {
	v := url.Values{}
	if k.all {
		v.Set(ops.ParamAll, "true")
	} else {
		v.Set(ops.ParamKey, args[0])
	}
	if k.reason != "" {
		v.Set(ops.ParamReason, k.reason)
	}
	return v
}

func (k *rolloutKey) addReason(cmd *cobra.Command) {
	cmd.Flags().StringVar(&k.reason, ops.ParamReason, "", "why, in a few `WORDS`: for the status and the log")
	_ = cmd.MarkFlagRequired(ops.ParamReason)
}

func (a *app) newFreezeCmd() *cobra.Command {
	k := &rolloutKey{}
	cmd := &cobra.Command{
		Use: "freeze KEY|--all", Short: "Keep clients at their present configuration",
		Long: "Keep the clients of a key, or of all keys, at their present configuration, whatever the\n" +
			"control plane sends. Endpoints, secrets, resources with a TTL, refusals, and names that no\n" +
			"client had before still pass. 'xdsrelay rollout unfreeze' releases the changes that are\n" +
			"held back. The order survives a restart in a tier with Redis, and on a single node if\n" +
			"last_known_good.store is directory.",
		Example: "  xdsrelay rollout freeze shop/eu --reason 'bad routes since 14:03'\n  xdsrelay rollout freeze --all --reason 'control plane upgrade'",
		Args:    k.args,
	}
	cmd.Flags().BoolVar(&k.all, "all", false, "all keys, also those of clients that connect later")
	k.addReason(cmd)
	a.addRolloutOrder(cmd, ops.OrderFreeze, k)
	return cmd
}

func (a *app) newUnfreezeCmd() *cobra.Command {
	k := &rolloutKey{}
	cmd := &cobra.Command{
		Use: "unfreeze KEY|--all", Short: "End a freeze or an undo, and send clients what was held back",
		Long: "End the freeze of a key, or of all keys, and send clients what was held back, as one update\n" +
			"of each type. It also ends what follows from 'xdsrelay rollout undo': clients get what was\n" +
			"undone again, unless the control plane has replaced it. See 'xdsrelay rollout diff' first.",
		Example: "  xdsrelay rollout diff shop/eu\n  xdsrelay rollout unfreeze shop/eu",
		Args:    k.args,
	}
	cmd.Flags().BoolVar(&k.all, "all", false, "end the freeze of all keys; keys that were frozen or undone by name stay held")
	a.addRolloutOrder(cmd, ops.OrderUnfreeze, k)
	return cmd
}

func (a *app) newUndoCmd() *cobra.Command {
	k := &rolloutKey{}
	cmd := &cobra.Command{
		Use: "undo KEY", Short: "Bring the clients of a key back to the revision before",
		Long: "Bring all clients of a key back to what they had before its newest revision, at once. A\n" +
			"further undo restores one more. The key is held there: changes wait until the control\n" +
			"plane sends something else for what was undone, or until 'xdsrelay rollout unfreeze'. The\n" +
			"former contents are those of the history (cache.history, limits.max_history_size); without\n" +
			"all of them, nothing is changed.",
		Example: "  xdsrelay rollout history shop/eu\n  xdsrelay rollout undo shop/eu --reason 'answers 503 since r-5f31c2a0'",
		Args:    one("KEY", keysHint),
	}
	k.addReason(cmd)
	a.addRolloutOrder(cmd, ops.OrderUndo, k)
	return cmd
}

// newSteerCmd is an order about the rollout of a key.
func (a *app) newSteerCmd(do, short, long string, reason bool) *cobra.Command {
	k := &rolloutKey{}
	cmd := &cobra.Command{Use: do + " KEY", Short: short, Long: long, Example: "  xdsrelay rollout " + do + " shop/eu", Args: one("KEY", keysHint)}
	if reason {
		cmd.Example += " --reason 'error rate of canaries'"
		k.addReason(cmd)
	}
	a.addRolloutOrder(cmd, do, k)
	return cmd
}

func (a *app) newResumeCmd() *cobra.Command {
	k := &rolloutKey{}
	cmd := &cobra.Command{
		Use: "resume KEY|--all", Short: "Go on with a paused rollout, or let rollouts start again",
		Long:    "Go on with a paused rollout. With --all, let rollouts of all keys start again after so many\nfailed that none did (rollout.breaker).",
		Example: "  xdsrelay rollout resume shop/eu\n  xdsrelay rollout resume --all",
		Args:    k.args,
	}
	cmd.Flags().BoolVar(&k.all, "all", false, "close the breaker of all keys; paused rollouts stay paused")
	a.addRolloutOrder(cmd, ops.OrderResume, k)
	return cmd
}

func (a *app) newPromoteCmd() *cobra.Command {
	k := &rolloutKey{}
	skip := false
	cmd := &cobra.Command{
		Use: "promote KEY --skip-checks", Short: "Send all clients of a key what is held back, without checks",
		Long: "Send all clients of a key what is held back, at once and without canaries, also what was\n" +
			"refused. This is for emergencies: nothing protects the clients. 'xdsrelay rollout undo'\n" +
			"restores the revision before.",
		Example: "  xdsrelay rollout promote shop/eu --skip-checks --reason 'certificate expires in 5 minutes'",
		Args: func(cmd *cobra.Command, args []string) error {
			if !skip {
				return usageError{errors.New("promote releases to all clients without checks: expected --skip-checks")}
			}
			return one("KEY", keysHint)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&skip, "skip-checks", false, "confirms that no canaries are wanted")
	k.addReason(cmd)
	a.addRolloutOrder(cmd, ops.OrderPromote, k)
	return cmd
}

func (a *app) newRolloutPlanCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "plan KEY", Short: "Show which clients would get what is pending first",
		Long:    "Show the steps by which the rollout policy of a key would release what is held back now, with\nthe number of clients of each.",
		Example: "  xdsrelay rollout plan shop/eu",
		Args:    one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var p ops.RolloutPlan
		if _, err := node.get(cmd.Context(), "/api/v1/rollout/plan", url.Values{ops.ParamKey: args}, &p); err != nil {
			return err
		}
		return out.print(a.stdout, view{data: p, names: []string{p.Revision}, table: func(w io.Writer, _ bool) { printPlan(w, &p) }})
	})
	return cmd
}

// addRolloutOrder makes a command give an order.
func (a *app) addRolloutOrder(cmd *cobra.Command, do string, k *rolloutKey) {
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var done ops.RolloutOrdered
		raw, _, err := node.call(cmd.Context(), http.MethodPost, "/rollout/"+do, k.query(args), nil, &done)
		if err != nil {
			return err
		}
		return out.print(a.stdout, view{data: raw, names: []string{done.Key}, table: text(orderedText(&done))})
	})
}

// orderedWords say what became of an order about a rollout.
var orderedWords = map[string]string{
	ops.OrderApprove: "the step is approved", ops.OrderPause: "paused; no further client gets the new revision", ops.OrderResume: "rollouts continue",
	ops.OrderAbort: "aborted; canaries get the stable revision, and the new one is refused", ops.OrderRetry: "what was refused is tried again, starting with scouts",
	ops.OrderPromote: "all clients get what was held back, without checks",
}

func (a *app) newRolloutStatusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [KEY]", Short: "Show how far rollouts are, which keys are frozen, and what is held back",
		Long:    "Show how far the rollout of a key is, whether the key is frozen or held at an earlier revision,\nwhy, and what is held back. Without a KEY, show all keys that have a policy or are held.",
		Example: "  xdsrelay rollout status\n  xdsrelay rollout status shop/eu",
		Args:    cobra.MaximumNArgs(1),
	}
	exitCodes(cmd, "the key is open, or no key is held", "a key is frozen or held", "the state is unknown, or the command line is wrong")
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		query := url.Values{}
		if len(args) > 0 {
			query.Set(ops.ParamKey, args[0])
		}
		var s ops.Rollout
		if _, err := node.get(cmd.Context(), "/api/v1/rollout", query, &s); err != nil {
			return usageError{err}
		}
		for _, one := range s.Silent {
			fmt.Fprintf(a.stderr, "node %s does not answer; rollouts that it decides about may be missing: %s\n", printable(one.Node), printable(one.Error))
		}
		held := s.All != nil
		for _, k := range s.Keys {
			held = held || k.State == "frozen" || k.State == "undone" || k.Rollout != nil && !k.Rollout.Observes() && strings.HasPrefix(k.Rollout.State, "Held")
		}
		if err := out.print(a.stdout, view{
			data: s, names: namesOf(s.Keys, func(k *ops.RolloutKey) string { return k.Key }),
			table: func(w io.Writer, _ bool) { printRollout(w, &s, time.Now()) },
		}); err != nil {
			return err
		}
		if held {
			return errQuiet{errHeld}
		}
		return nil
	})
	return cmd
}

// errHeld makes status end with the exit code for held keys; the output says it all.
var errHeld = errors.New("keys are held")

func (a *app) newRolloutHistoryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history KEY", Short: "Show the last revisions of a key",
		Long: "Show the last revisions of a key, the newest first: changes of listeners, routes and\n" +
			"clusters that arrived together are one revision. Equal content has the same name at all\n" +
			"times. 'xdsrelay rollout undo' restores the content before the newest one. Below are the\n" +
			"decisions of the rollout policy and of operators, with the clients that rejected a revision,\n" +
			"were lost with it, or did not answer.",
		Example: "  xdsrelay rollout history shop/eu",
		Args:    one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var h ops.RolloutHistory
		if _, err := node.get(cmd.Context(), "/api/v1/rollout/history", url.Values{ops.ParamKey: args}, &h); err != nil {
			return err
		}
		return out.print(a.stdout, view{
			data: h, names: namesOf(h.Revisions, func(r *ops.RolloutRevision) string { return r.ID }),
			table: func(w io.Writer, _ bool) {
				now := time.Now()
				printRevisions(w, &h, now)
				printDecisions(w, h.Decisions, now)
			},
		})
	})
	return cmd
}

func (a *app) newRolloutDiffCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "diff KEY", Short: "Show what is held back of a key, field by field",
		Long:    "Show how what the control plane has sent differs from what clients see, field by field. This\nis what 'xdsrelay rollout unfreeze' would send to clients. Secrets are never shown.",
		Example: "  xdsrelay rollout diff shop/eu",
		Args:    one("KEY", keysHint),
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	a.completeKeys(cmd, node)
	cmd.RunE = a.action(func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		var d ops.RolloutDiff
		if _, err := node.get(cmd.Context(), "/api/v1/rollout/diff", url.Values{ops.ParamKey: args}, &d); err != nil {
			return err
		}
		return out.print(a.stdout, view{data: d, names: heldResources(&d), table: func(w io.Writer, _ bool) { printHeld(w, &d) }})
	})
	return cmd
}
