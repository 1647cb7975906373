package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
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
		"a few clients first. In a tier, the orders work for keys with a policy."
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

func printPlan(w io.Writer, p *ops.RolloutPlan) {
	if p.Policy == "" {
		fmt.Fprintf(w, "%s: no rollout policy (aggregation.rules[].rollout); all changes pass at once\n", printable(p.Key))
		return
	}
	if p.Revision == "" {
		fmt.Fprintf(w, "%s: nothing is pending; the policy is %s\n", printable(p.Key), printable(p.Policy))
		return
	}
	if p.Observed {
		fmt.Fprintf(w, "%s: the policy only observes; all clients have %s, which would have been released like this:\n", printable(p.Key), printable(p.Revision))
	}
	fmt.Fprintf(w, "%s: %s by policy %s, for %d affected clients, of which %d may be canaries\n", printable(p.Key), printable(p.Revision), printable(p.Policy), p.Affected, p.Eligible)
	rows := [][]string{{"STEP", "CLIENTS", "BAKE", "APPROVAL", "VERSIONS"}}
	for _, s := range p.Steps {
		approval := "-"
		if s.Approve {
			approval = "required"
		}
		versions := make([]string, 0, len(s.Versions))
		for _, v := range s.Versions {
			versions = append(versions, printable(v))
		}
		rows = append(rows, []string{s.Name, strconv.Itoa(s.Clients), s.Bake.String(), approval, strings.Join(versions, ", ")})
	}
	columns(w, rows)
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
	case ops.OrderUndo:
		if len(d.Revisions) == 0 { // of a key with a policy
			line = what + ": clients get the revision before, and the key is held there"
			break
		}
		line = fmt.Sprintf("%s: %s is undone; clients get %s, and the key is held there", what, printable(strings.Join(d.Revisions[:min(1, len(d.Revisions))], "")), count(d.Changes, "change"))
	default:
		line = what + ": " + orderedWords[d.Order]
	}
	if d.Note != "" {
		line += "\nnote: " + printable(d.Note)
	}
	return line + "\n"
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
		if k.Rollout != nil {
			printProgress(w, k.Rollout, now)
		}
		for _, p := range k.Pending {
			fmt.Fprintf(w, "  held back     %s +%d ~%d -%d  %s\n", printable(p.Name), p.Added, p.Changed, p.Removed, firstNames(p.Names))
		}
		if (k.Freeze != nil || k.Undone != nil) && len(k.Pending) == 0 {
			fmt.Fprintln(w, "  held back     nothing")
		}
	}
}

// printProgress prints how far a rollout is.
func printProgress(w io.Writer, s *ops.RolloutProgress, now time.Time) {
	state := printable(s.State)
	if s.Waits != "" {
		state += ", waits: " + printable(s.Waits)
	}
	if s.IsOverdue {
		state += ", OVERDUE"
	}
	canaries := "are canaries"
	if s.Observes() {
		state, canaries = "nothing is held back"+observedState(s, state), "would be canaries"
	}
	fmt.Fprintf(w, "  policy        %s (%s)\n  state         %s\n", printable(s.Policy), printable(s.Mode), state)
	if s.Revision != "" {
		fmt.Fprintf(w, "  revision      %s\n", printable(s.Revision))
	}
	switch {
	case s.Steps == 0:
	case strings.HasPrefix(s.State, "Held") && !s.Observes():
		fmt.Fprintf(w, "  refused at    step %d of %d, after %d of %d affected clients were sent it\n", s.Step, s.Steps, s.Exposed, s.Affected)
	default:
		fmt.Fprintf(w, "  step          %d of %d, %d of %d affected clients %s\n", s.Step, s.Steps, s.Canaries, s.Affected, canaries)
	}
	if c := s.Canary; c != nil {
		fmt.Fprintf(w, "  canaries      %s\n  control       %s\n", armText(c), armText(s.Control))
	}
	if !s.BakeEnds.IsZero() {
		fmt.Fprintf(w, "  bake          %s left\n", max(0, s.BakeEnds.Sub(now)).Round(time.Second))
	}
	for _, f := range s.Findings {
		fmt.Fprintf(w, "  finding       %s\n", printable(f))
	}
	printTrouble(w, &s.Trouble, now)
	if o := s.Observed; o != nil {
		fmt.Fprintf(w, "  all clients   %d have it; %d rejected it, %d were lost, %d have not answered\n", o.Clients, o.Rejected, o.Lost, o.Unanswered)
	}
	if len(s.Refused) > 0 {
		label := "refused       "
		if s.Observes() {
			label = "would refuse  "
		}
		fmt.Fprintf(w, "  %s%s\n", label, printable(strings.Join(s.Refused, ", ")))
	}
	if s.Good != "" {
		fmt.Fprintf(w, "  good          %s\n", printable(s.Good))
	}
	if s.Next != "" {
		fmt.Fprintf(w, "  next          %s\n", printable(s.Next))
	}
}

// armText is what was counted of the canaries, or of their control group.
func armText(a *ops.RolloutArm) string {
	requests := "requests not measured"
	if a.Requests > 0 {
		requests = fmt.Sprintf("%d of %d requests failed", a.Errors, a.Requests)
	}
	return fmt.Sprintf("%s, %d accepted it, %d rejected it, %d unanswered, %d lost; %s", count(a.Clients, "client"), a.Accepted, a.Rejected, a.Unanswered, a.Lost, requests)
}

// observedState says what a rollout would do whose policy only observes.
func observedState(s *ops.RolloutProgress, state string) string {
	switch {
	case s.State == "Idle":
		return ""
	case strings.HasPrefix(s.State, "Held"):
		return "; a rollout would have failed, and the revision would be refused"
	}
	return "; a rollout would be " + state
}

// printTrouble prints which canaries have trouble with a revision.
func printTrouble(w io.Writer, t *ops.RolloutTrouble, now time.Time) {
	for _, r := range t.Rejections {
		about := ops.ShortName(r.Type)
		if len(r.Resources) > 0 {
			about += " " + firstNames(r.Resources)
		}
		fmt.Fprintf(w, "  rejected by   %s, %s: %s\n", printable(r.Client), printable(about), printable(r.Reason))
	}
	for _, c := range t.Lost {
		had := "after it had accepted what it was sent"
		if c.Type != "" {
			had = "before it answered " + printable(ops.ShortName(c.Type))
		}
		fmt.Fprintf(w, "  lost          %s, %s, %s\n", printable(c.Client), ago(now, c.At), had)
	}
	for _, c := range t.Unanswered {
		fmt.Fprintf(w, "  no answer     %s, to %s sent %s\n", printable(c.Client), printable(ops.ShortName(c.Type)), ago(now, c.At))
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

// printDecisions prints the decisions about the rollouts of a key.
func printDecisions(w io.Writer, all []ops.RolloutDecision, now time.Time) {
	for i := range all {
		d := &all[i]
		what, have := printable(d.What), "have it"
		if d.Observed {
			what, have = "observed: "+what, "would have it"
		}
		line := fmt.Sprintf("%s, %s %s: %d of %d clients %s", ago(now, d.At), what, printable(d.Revision), d.Canaries, d.Affected, have)
		if d.Revision == "" {
			line = ago(now, d.At) + ", " + printable(d.What)
		}
		if d.Why != "" {
			line += "; " + printable(d.Why)
		}
		fmt.Fprintln(w, line+orderedBy(d.By))
		printTrouble(w, &d.Trouble, now)
	}
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
