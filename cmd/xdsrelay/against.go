package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
	"xdsrelay/relay/ops"
)

// checkAgainst returns an error about the flags of --against-running.
func checkAgainst(cmd *cobra.Command, out *output, running bool) error {
	if running {
		return out.check()
	}
	for _, name := range []string{"output", "context", "admin-token-file", "admin-ca", "admin-cert", "admin-key"} {
		if cmd.Flags().Changed(name) {
			return usageError{fmt.Errorf("--%s needs --against-running", name)}
		}
	}
	return nil
}

// against prints what a configuration would change in the running tier.
func (r *remote) against(ctx context.Context, out *output, cfg *config.Config) error {
	salt := make([]byte, config.LeastSalt)
	_, _ = rand.Read(salt) // never fails
	body, err := json.Marshal(ops.CandidateOf(cfg, salt))
	if err != nil {
		return err
	}
	var w ops.Would
	if _, _, err := r.call(ctx, http.MethodPost, "/config/check", nil, body, &w); err != nil {
		return err
	}
	if out.isTable() {
		fmt.Fprintln(r.app.stdout)
	}
	if err := out.print(r.app.stdout, view{
		data:  w,
		names: namesOf(w.Moves, func(m *ops.Move) string { return m.From }),
		table: func(to io.Writer, wide bool) { printWould(to, w, wide) },
	}); err != nil {
		return err
	}
	if !out.isData() {
		silentLines(r.app.stderr, w.Silent)
	}
	if len(w.Silent) > 0 {
		return errSilent
	}
	return nil
}

// mostMoves is the number of rows about keys in a table; a wide one has all.
const mostMoves = 20

func printWould(to io.Writer, w ops.Would, wide bool) {
	fmt.Fprintf(to, "compared with %s of %s:\n", count(w.Clients, "client"), count(len(w.Nodes), "node"))
	columns(to, [][]string{
		{"  CLIENTS", "NUMBER", "PERCENT"},
		{"  keep their key", fmt.Sprint(w.Unchanged), percent(w.Unchanged, w.Clients)},
		{"  change their key", fmt.Sprint(w.Changed), percent(w.Changed, w.Clients)},
		{"  would be refused", fmt.Sprint(w.Refused), percent(w.Refused, w.Clients)},
		{"  unknown", fmt.Sprint(w.Unknown), percent(w.Unknown, w.Clients)},
	})
	if len(w.Moves) > 0 {
		rows := [][]string{{"KEY", "NEW KEY", "CLIENTS", "PERCENT"}}
		for i, m := range w.Moves {
			if i == mostMoves && !wide {
				break
			}
			if m.From == m.To {
				m.To += " (secrets shared otherwise)"
			}
			rows = append(rows, []string{m.From, m.To, fmt.Sprint(m.Clients), percent(m.Clients, w.Clients)})
		}
		fmt.Fprintln(to)
		columns(to, rows)
		if more := len(w.Moves) + w.MovesOmitted - len(rows) + 1; more > 0 {
			fmt.Fprintf(to, "and %d more changes of keys; -o wide shows at most %d\n", more, len(w.Moves))
		}
	}
	refusalTable(to, "REFUSED BY", w.Refusals, w.Clients)
	refusalTable(to, "UNKNOWN BY", w.Unknowns, w.Clients)
	if len(w.Limits) > 0 {
		rows := [][]string{{"LIMIT EXCEEDED", "NODE", "USED", "LIMIT", "BY"}}
		for _, l := range w.Limits {
			by := l.Who
			if l.Others > 0 {
				by += fmt.Sprintf(" and %d more", l.Others)
			}
			rows = append(rows, []string{l.Field, l.Node, fmt.Sprint(l.Used), fmt.Sprint(l.Limit), by})
		}
		fmt.Fprintln(to)
		columns(to, rows)
		fmt.Fprintln(to, "existing connections stay; a limit refuses new ones")
	}
	fmt.Fprintln(to)
	if len(w.Fields) == 0 {
		fmt.Fprintln(to, "no fields differ from the configuration of the nodes")
		return
	}
	rows := [][]string{{"CHANGED FIELD", "TAKES EFFECT", "NODES"}}
	for _, f := range w.Fields {
		effect, nodes := "on reload", strings.Join(f.Nodes, ", ")
		if f.Effect == ops.EffectRestart {
			effect = "after a restart"
		}
		if len(f.Nodes) == len(w.Nodes) {
			nodes = "all"
		}
		rows = append(rows, []string{f.Field, effect, nodes})
	}
	columns(to, rows)
	if w.Changed > 0 {
		fmt.Fprintln(to, "\nafter a reload, connected clients keep their key until they reconnect; 'xdsrelay rules apply' moves them")
	}
}

func refusalTable(to io.Writer, title string, all []ops.WouldRefuse, clients int) {
	if len(all) == 0 {
		return
	}
	rows := [][]string{{title, "RULE", "REASON", "CLIENTS", "PERCENT", "EXAMPLES"}}
	for _, r := range all {
		rows = append(rows, []string{r.By, r.Rule, r.Reason, fmt.Sprint(r.Clients), percent(r.Clients, clients), strings.Join(r.Examples, ", ")})
	}
	fmt.Fprintln(to)
	columns(to, rows)
}

// percent is a part as a percentage, so that only nothing is 0 % and only everything is 100 %.
func percent(part, whole int) string {
	if whole == 0 {
		return ""
	}
	switch p := (100*part + whole/2) / whole; {
	case p == 0 && part > 0:
		return "<1 %"
	case p >= 100 && part < whole:
		return ">99 %"
	default:
		return fmt.Sprintf("%d %%", p)
	}
}
