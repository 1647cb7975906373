package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"xdsrelay/relay/ops"
)

// newRulesCmd is about the aggregation rules of a running tier.
func (a *app) newRulesCmd() *cobra.Command {
	return newParentCmd("rules", "Move clients to changed aggregation rules", a.newRulesApplyCmd())
}

// Times and bounds of rules apply.
const (
	applyEvery = time.Second
	// returnTime is the time that a client has to reconnect: a drained connection is closed after 5s,
	// and clients wait up to a second and more before they reconnect.
	returnTime = 15 * time.Second
	// lostPercent and lostLeast are how many of the moved clients may stay away.
	lostPercent, lostLeast = 5, 5
	// maxVain is how many batches in a row may move nothing although clients are due, such as those
	// whose connections are still draining.
	maxVain = 20
)

// newRulesApplyCmd moves clients to the rules in force.
func (a *app) newRulesApplyCmd() *cobra.Command {
	var (
		pace string
		dry  bool
	)
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make clients with a key from former aggregation rules reconnect",
		Long: "Make clients with a key from former aggregation rules reconnect, on all nodes of a tier.\n" +
			"After a live change of the rules, connected clients keep their key. This command drains\n" +
			"the connections of the clients that would now get another key, and of those whose new key\n" +
			"is unknown, at a pace. It leaves the others alone: those whose key stays the same,\n" +
			"and those that the rules would refuse, which would lose their stream.\n\n" +
			"The command stops if Ctrl-C interrupts it, if a node does not answer, or if more than\n" +
			fmt.Sprintf("%d %% of the moved clients, and more than %d, have not reconnected after %s. Clients that it\n", lostPercent, lostLeast, returnTime) +
			"has not moved keep their key. Run it again to continue: it moves only clients that are\n" +
			"still on former rules. Other clients that disconnect count, too.",
		Example: "  xdsrelay rules apply --dry-run\n" +
			"  xdsrelay rules apply --pace 100/s",
		Args: cobra.NoArgs,
	}
	node := a.addAdmin(cmd)
	out := addOutput(cmd, asTable)
	cmd.Flags().StringVar(&pace, "pace", "100/s", "clients per second or minute, as `N/s` or N/m")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would happen, and change nothing")
	exitCodes(cmd, "all clients that can be moved are on the rules in force", "the command has stopped before, or failed", usuallyWrong)
	cmd.RunE = a.action(func(cmd *cobra.Command, _ []string) error {
		perSecond, err := parsePace(pace)
		if err := errors.Join(out.check(), err); err != nil {
			return err
		}
		m := mover{app: a, node: node, out: out, perSecond: perSecond}
		if dry {
			return m.count(cmd.Context())
		}
		return m.run(cmd.Context())
	})
	return cmd
}

// parsePace reads the value of --pace, in clients per second.
func parsePace(text string) (float64, error) {
	number, unit, ok := strings.Cut(text, "/")
	n, err := strconv.Atoi(number)
	per := map[string]float64{"s": 1, "m": 60}[unit]
	if !ok || err != nil || n < 1 || n > ops.MaxApply || per == 0 {
		return 0, usageError{fmt.Errorf("--pace: got %q, expected clients per second or minute, such as 100/s or 30/m, and at most %d", text, ops.MaxApply)}
	}
	return float64(n) / per, nil
}

// mover moves clients to the rules in force.
type mover struct {
	app       *app
	node      *remote
	out       *output
	perSecond float64

	due     int // as far as known
	moved   int
	recent  []batch // of the last returnTime
	streams int     // before the first batch
	missing int     // streams since then
	vain    int     // batches in a row that moved nothing
}

// batch is a number of streams that ended at a time.
type batch struct {
	at    time.Time
	ended int
}

// moveResult is what the command prints at the end.
type moveResult struct {
	Moved     int                `json:"moved"`
	Away      int                `json:"not_reconnected,omitempty"` // no more than the command tolerates
	Remaining map[ops.Former]int `json:"former_rules"`
	Silent    []ops.Silent       `json:"silent"`
}

// count prints how many clients would move.
func (m *mover) count(ctx context.Context) error {
	var s ops.Summary
	if _, err := m.node.get(ctx, "/api/v1/summary", nil, &s); err != nil {
		return err
	}
	return m.print(moveResult{0, 0, s.Former, s.Silent}, true)
}

func (m *mover) print(r moveResult, dry bool) error {
	if r.Remaining == nil {
		r.Remaining = map[ops.Former]int{}
	}
	if err := m.out.print(m.app.stdout, view{data: r, table: func(w io.Writer, _ bool) { formerTable(w, r, dry, m.perSecond) }}); err != nil {
		return err
	}
	if !m.out.isData() {
		silentLines(m.app.stderr, r.Silent)
	}
	if len(r.Silent) > 0 {
		return errSilent
	}
	return nil
}

func formerTable(w io.Writer, r moveResult, dry bool, perSecond float64) {
	due := (&ops.Applied{Former: r.Remaining}).Due()
	if !dry {
		fmt.Fprintf(w, "moved %s", count(r.Moved, "client"))
		if r.Away > 0 {
			fmt.Fprintf(w, "; not reconnected: %d; 'xdsrelay events --kind clients' shows whether nodes reject them", r.Away)
		}
		fmt.Fprintln(w)
	}
	if due+r.Remaining[ops.FormerUnchecked]+r.Remaining[ops.FormerKeyStays]+r.Remaining[ops.FormerRefused] == 0 {
		fmt.Fprintln(w, "all clients are on the rules in force")
		return
	}
	columns(w, [][]string{
		{"CLIENTS ON FORMER RULES", "NUMBER", "MOVED BY APPLY"},
		{"would get another key", fmt.Sprint(r.Remaining[ops.FormerKeyChanges]), "yes"},
		{"new key unknown", fmt.Sprint(r.Remaining[ops.FormerUnknown]), "yes"},
		{"would be refused", fmt.Sprint(r.Remaining[ops.FormerRefused]), "no"},
		{"keep their key", fmt.Sprint(r.Remaining[ops.FormerKeyStays]), "no"},
		{"not compared yet", fmt.Sprint(r.Remaining[ops.FormerUnchecked]), "later"},
	})
	if dry && due > 0 {
		fmt.Fprintf(w, "\n'xdsrelay rules apply' would move %s in about %s\n", count(due, "client"), time.Duration(math.Ceil(float64(due)/perSecond))*time.Second)
	}
}

// run moves the clients.
func (m *mover) run(ctx context.Context) error {
	credit := 0.0
	for {
		credit = min(credit+m.perSecond*applyEvery.Seconds(), max(m.perSecond*applyEvery.Seconds(), 1))
		a, err := m.step(ctx, min(int(credit), ops.MaxApply))
		if err != nil {
			return m.stopped(ctx, err)
		}
		credit -= float64(a.Ended)
		// What the last batch has done shows the step after it.
		if a.Due() == 0 && a.Ended == 0 && a.Former[ops.FormerUnchecked] == 0 && (m.missing <= 0 || m.away(time.Now()) == 0) {
			return m.print(moveResult{m.moved, max(m.missing, 0), a.Former, a.Silent}, false)
		}
		select {
		case <-ctx.Done():
			return m.stopped(ctx, ctx.Err())
		case <-time.After(applyEvery):
		}
	}
}

// step moves one batch, of at most this many clients. The first step only looks.
func (m *mover) step(ctx context.Context, most int) (a ops.Applied, err error) {
	if m.due > 0 && most > 0 {
		_, _, err = m.node.call(ctx, http.MethodPost, "/rules/apply", url.Values{ops.ParamMost: {strconv.Itoa(most)}}, nil, &a)
	} else {
		var s ops.Summary
		_, err = m.node.get(ctx, "/api/v1/summary", nil, &s)
		a = ops.Applied{Former: s.Former, Streams: s.Streams, Silent: s.Silent}
	}
	if err != nil {
		return a, err
	}
	if m.moved == 0 {
		m.streams = a.Streams
	}
	now := time.Now()
	m.missing = m.streams - a.Streams // before this batch
	late := m.missing - m.away(now)
	m.due = a.Due() - a.Ended
	m.moved += a.Ended
	if m.vain++; m.due <= 0 || a.Ended > 0 || most == 0 {
		m.vain = 0
	}
	m.recent = append(m.recent, batch{now, a.Ended})
	if m.out.isTable() && a.Ended > 0 {
		fmt.Fprintf(m.app.stderr, "moved %s; %d to go\n", count(m.moved, "client"), max(m.due, 0))
	}
	switch {
	case len(a.Silent) > 0:
		return a, fmt.Errorf("node %s does not answer: %s", printable(a.Silent[0].Node), printable(a.Silent[0].Error))
	case m.vain > maxVain:
		return a, fmt.Errorf("%d clients on former rules cannot be moved: their connections also carry clients that the rules would refuse, or do not close", m.due)
	case late > max(lostLeast, m.moved*lostPercent/100):
		return a, fmt.Errorf("%d clients have not reconnected after %s", late, returnTime)
	}
	return a, nil
}

// away returns the number of moved clients that may still be reconnecting.
func (m *mover) away(now time.Time) (n int) {
	for len(m.recent) > 0 && now.Sub(m.recent[0].at) > returnTime {
		m.recent = m.recent[1:]
	}
	for _, b := range m.recent {
		n += b.ended
	}
	return n
}

// stopped is the error of a run that did not reach its end.
func (m *mover) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if m.moved == 0 {
		return err
	}
	return fmt.Errorf("stopped after %s moved: %w; the others keep their key. Run the command again to continue", count(m.moved, "client"), err)
}
