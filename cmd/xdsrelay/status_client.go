package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// clientDetail writes all details of one client.
func clientDetail(w io.Writer, c *ops.Client, now time.Time, table func(w io.Writer, rows [][]string)) {
	rows := [][2]string{
		{"client", c.Name}, {"cluster", c.Cluster}, {"key", c.Key}, {"rule", c.Rule}, {"node", c.Node}, {"peer", c.Peer},
		connection(c, now),
		{"state", fmt.Sprintf("%s, for %s", c.State, ago(now, c.Since))}, {"rollout", rolloutOf(c)},
	}
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "%-8s %s\n", r[0]+":", printable(r[1]))
		}
	}
	fmt.Fprintln(w)
	types := [][]string{{"TYPE", "STATE", "SINCE", "SUBSCRIBED TO", "MISSING", "SENT VERSION", "SENT", "ACKED GENERATION", "NEWEST GENERATION", "ACKS", "NACKS", "CONTROL PLANE VERSION"}}
	for _, t := range c.Types {
		name := t.Name
		if t.Private {
			name += " (private)"
		}
		types = append(types, []string{
			name, string(t.State), ago(now, t.Since), subscription(t), fmt.Sprint(t.Missing), t.Version, ago(now, t.SentAt),
			fmt.Sprint(t.Acked), fmt.Sprint(t.Newest), fmt.Sprint(t.Acks), fmt.Sprint(t.Nacks), t.ControlPlaneVersion,
		})
	}
	table(w, types)
	waitingLines(w, c.Types)
	for _, t := range c.Types {
		missingLine(w, t)
	}
	for _, t := range c.Types {
		if t.Nack != nil {
			fmt.Fprintf(w, "\n%s: the client rejected version %s (NACK, code %d) %s ago: %s\n", t.Name, printable(t.Nack.Version), t.Nack.Code, ago(now, t.Nack.At), printable(t.Nack.Message))
		}
	}
	for _, t := range c.Types {
		if t.UnackedResends > 0 {
			fmt.Fprintf(w, "\n%s: the relay resent version %s %s in the last %s, and the client still polls with %s: it rejects the version, or does not get the responses\n",
				t.Name, printable(shortVersion(t.Version)), count(int(t.UnackedResends), "time"), ago(now, t.SentAt), orNoVersion(printable(shortVersion(t.Has))))
		}
	}
	for _, t := range c.Types {
		resourceTable(w, t, now)
	}
}

// rolloutOf describes the part of a client in a rollout; empty for none.
func rolloutOf(c *ops.Client) string {
	switch {
	case c.Rollout == nil:
		return ""
	case c.Rollout.Arm == "control":
		return "control group of " + c.Rollout.Revision
	}
	return "canary of " + c.Rollout.Revision
}

// waitingLines say why the newest versions of types were not sent or not acknowledged.
func waitingLines(w io.Writer, types []ops.Type) {
	var rows [][]string
	for _, t := range types {
		if t.Waiting != "" {
			rows = append(rows, []string{t.Name, t.Waiting})
		}
	}
	if len(rows) > 0 {
		fmt.Fprintln(w)
		columns(w, append([][]string{{"WAITING", "REASON"}}, rows...))
	}
}

// missingLine names the missing resources of a type.
func missingLine(w io.Writer, t ops.Type) {
	if t.Missing == 0 {
		return
	}
	names := make([]string, 0, len(t.MissingNames)+1)
	for _, n := range t.MissingNames {
		names = append(names, printable(n))
	}
	if more := t.Missing - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	fmt.Fprintf(w, "\n%s: the client subscribes to %s that the control plane has not sent: %s\n", t.Name, count(t.Missing, "resource"), strings.Join(names, ", "))
}

// connection says how the client is connected.
func connection(c *ops.Client, now time.Time) [2]string {
	if !c.Polled.IsZero() {
		return [2]string{"polling", fmt.Sprintf("for %s, last poll %s ago (%s)", ago(now, c.Connected), ago(now, c.Polled), strings.Join(c.Variants, "+"))}
	}
	return [2]string{"streams", fmt.Sprintf("%d (%s), connected for %s", c.Streams, strings.Join(c.Variants, "+"), ago(now, c.Connected))}
}

func orNoVersion(version string) string {
	if version == "" {
		return "no version"
	}
	return version
}

func subscription(t ops.Type) string {
	switch {
	case t.Wildcard && t.Names > 0:
		return "* and " + count(t.Names, "name")
	case t.Wildcard:
		return "*"
	}
	return count(t.Names, "name")
}

// resourceTable writes the state of each resource of a type, with --resources.
func resourceTable(w io.Writer, t ops.Type, now time.Time) {
	if len(t.Resources) == 0 {
		return
	}
	fmt.Fprintln(w)
	table := [][]string{{t.Name, "STATE", "VERSION", "CHANGED"}}
	for _, r := range t.Resources {
		state := string(r.State)
		if !r.Exists {
			state += " (does not exist)"
		}
		changed := ""
		if !r.Changed.IsZero() {
			changed = ago(now, r.Changed) + " ago"
		}
		table = append(table, []string{r.Name, state, shortVersion(r.Version), changed})
	}
	columns(w, table)
	if t.Omitted > 0 {
		fmt.Fprintf(w, "and %d more\n", t.Omitted)
	}
}
