package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

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
