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
	cmd := newParentCmd("rollout", "Freeze keys, undo changes, and show what is held back",
		a.newRolloutStatusCmd(), a.newRolloutHistoryCmd(), a.newRolloutDiffCmd(), a.newFreezeCmd(), a.newUnfreezeCmd(), a.newUndoCmd())
	cmd.Long = "Freeze keys, undo changes, and show what is held back. While a key is frozen, its clients\n" +
		"keep their listeners, routes and clusters whatever the control plane sends; endpoints and\n" +
		"secrets pass. The commands work on a node without a tier."
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
			"held back. The order survives a restart if last_known_good.store is directory.",
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

func orderedText(d *ops.RolloutOrdered) string {
	what := "all keys"
	if d.Key != "" {
		what = "key " + printable(d.Key)
	}
	var line string
	switch d.Order {
	case ops.OrderFreeze:
		line = what + ": frozen; clients keep their present configuration"
	case ops.OrderUnfreeze:
		line = fmt.Sprintf("%s: no longer frozen; clients get %s", what, count(d.Changes, "change"))
	default:
		line = fmt.Sprintf("%s: %s is undone; clients get %s, and the key is held there", what, printable(strings.Join(d.Revisions[:min(1, len(d.Revisions))], "")), count(d.Changes, "change"))
	}
	if d.Note != "" {
		line += "\nnote: " + printable(d.Note)
	}
	return line + "\n"
}

func (a *app) newRolloutStatusCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status [KEY]", Short: "Show whether keys are frozen, and what is held back",
		Long:    "Show whether a key is frozen or held at an earlier revision, why, and what is held back.\nWithout a KEY, show all keys that are.",
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
		held := s.All != nil
		for _, k := range s.Keys {
			held = held || k.State != "open"
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

func printRollout(w io.Writer, s *ops.Rollout, now time.Time) {
	if s.All != nil {
		fmt.Fprintf(w, "all keys are FROZEN %s: %s\n", ago(now, s.All.Since), printable(s.All.Reason))
	}
	if len(s.Keys) == 0 && s.All == nil {
		fmt.Fprintln(w, "no key is frozen or held at an earlier revision")
	}
	for _, k := range s.Keys {
		fmt.Fprintf(w, "%s  %s\n", printable(k.Key), strings.ToUpper(k.State))
		if k.Stable != "" {
			fmt.Fprintf(w, "  clients have  %s\n", printable(k.Stable))
		}
		if f := k.Freeze; f != nil {
			fmt.Fprintf(w, "  frozen        %s%s: %s\n", ago(now, f.Since), orderedBy(f.By), printable(f.Reason))
		}
		if u := k.Undone; u != nil {
			fmt.Fprintf(w, "  undone        %s, %s%s: %s\n", printable(strings.Join(u.Revisions, ", ")), ago(now, u.Since), orderedBy(u.By), printable(u.Reason))
		}
		for _, p := range k.Pending {
			fmt.Fprintf(w, "  held back     %s +%d ~%d -%d  %s\n", printable(p.Name), p.Added, p.Changed, p.Removed, firstNames(p.Names))
		}
		if k.State != "open" && len(k.Pending) == 0 {
			fmt.Fprintln(w, "  held back     nothing")
		}
	}
}

// firstNames lists some names in one line.
func firstNames(names []string) string {
	shown := make([]string, 0, namesInTable)
	for _, n := range names[:min(len(names), namesInTable)] {
		shown = append(shown, printable(n))
	}
	if len(names) > namesInTable {
		shown = append(shown, "…")
	}
	return strings.Join(shown, ", ")
}

func (a *app) newRolloutHistoryCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "history KEY", Short: "Show the last revisions of a key",
		Long: "Show the last revisions of a key, the newest first: changes of listeners, routes and\n" +
			"clusters that arrived together are one revision. Equal content has the same name at all\n" +
			"times. 'xdsrelay rollout undo' restores the content before the newest one.",
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
			table: func(w io.Writer, _ bool) { printRevisions(w, &h, time.Now()) },
		})
	})
	return cmd
}

func printRevisions(w io.Writer, h *ops.RolloutHistory, now time.Time) {
	if len(h.Revisions) == 0 {
		fmt.Fprintln(w, "no revisions, or the history is disabled (cache.history)")
		return
	}
	rows := [][]string{{"REVISION", "AGE", "SOURCE", "CHANGED", "UNDO"}}
	for _, r := range h.Revisions {
		var parts []string
		for _, t := range r.Types {
			parts = append(parts, fmt.Sprintf("%s +%d ~%d -%d %s", t.Name, t.Added, t.Changed, t.Removed, firstNames(t.Names)))
		}
		undo := "possible"
		if r.NotUndoable != "" {
			undo = "no: " + r.NotUndoable
		}
		id := r.ID
		if id == "" {
			id = "-"
		}
		rows = append(rows, []string{printable(id), ago(now, r.At), sources[string(r.Cause)], strings.Join(parts, "; "), printable(undo)})
	}
	columns(w, rows)
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

// heldResources returns the resources as TYPE/NAME.
func heldResources(d *ops.RolloutDiff) (names []string) {
	for _, t := range d.Types {
		for _, r := range t.Resources {
			names = append(names, t.Name+"/"+r.Name)
		}
	}
	return names
}

func printHeld(w io.Writer, d *ops.RolloutDiff) {
	for _, t := range d.Types {
		fmt.Fprintln(w, printable(t.Name))
		for _, r := range t.Resources {
			fmt.Fprintf(w, "  %s %s\n", changeSigns[r.Change], printable(r.Name))
			printFields(w, "      ", &r.Diff)
		}
		if t.Omitted > 0 {
			fmt.Fprintf(w, "  and %d more\n", t.Omitted)
		}
	}
	if len(d.Types) == 0 {
		fmt.Fprintln(w, "nothing is held back")
	}
}

// orderedBy says who gave an order, if that is known.
func orderedBy(by string) string {
	if by == "" || by == "none" {
		return ""
	}
	return ", by " + printable(by)
}
