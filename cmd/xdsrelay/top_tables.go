package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// topColumn is a column of a table of the interactive top.
type topColumn struct {
	title string
	// flexible columns share the width that the others leave.
	flexible bool
	right    bool // aligned
}

// topRow is a row.
type topRow struct {
	id    string
	cells []string
	opens topQuery // the clients behind it
	bad   bool
	order topOrder
}

// topOrder is what rows are sorted by: greater numbers first, then names.
type topOrder struct {
	trouble, number float64
	since           time.Time // older first
	names           []string
}

// topSort is an order of rows.
type topSort struct {
	name    string
	compare func(a, b *topOrder) int
}

func byTrouble(a, b *topOrder) int {
	return cmp.Or(cmp.Compare(b.trouble, a.trouble), a.since.Compare(b.since), cmp.Compare(b.number, a.number))
}
func byNumber(a, b *topOrder) int { return cmp.Compare(b.number, a.number) }
func bySince(a, b *topOrder) int  { return a.since.Compare(b.since) }
func byName(i int) func(a, b *topOrder) int {
	return func(a, b *topOrder) int { return strings.Compare(a.names[i], b.names[i]) }
}

// topTable is a kind of table.
type topTable struct {
	title   string
	columns []topColumn
	sorts   []topSort
	rows    func(d *topData) []topRow
}

// topTables are all of them.
var topTables = [topViews]topTable{
	clientsView: {
		"Clients",
		[]topColumn{{title: "CLIENT", flexible: true}, {title: "KEY", flexible: true}, {title: "STATE"}, {title: "TYPES"}, {title: "SINCE", right: true}, {title: "NODE"}},
		[]topSort{{"trouble", byTrouble}, {"since", bySince}, {"name", byName(0)}, {"key", byName(1)}, {"node", byName(2)}},
		topClients,
	},
	keysView: {
		"Keys",
		[]topColumn{
			{title: "KEY", flexible: true}, {title: "OWNER"}, {title: "UPD/S", right: true}, {title: "STREAMS", right: true}, {title: "SYNCED", right: true},
			{title: "NACKED", right: true}, {title: "STALE", right: true}, {title: "NOTES", flexible: true},
		},
		[]topSort{{"trouble", byTrouble}, {"updates", byNumber}, {"name", byName(0)}, {"owner", byName(1)}},
		topKeys,
	},
	nodesView: {
		"Nodes",
		[]topColumn{
			{title: "NODE", flexible: true}, {title: "CLIENTS", right: true}, {title: "STREAMS", right: true}, {title: "SYNCED", right: true}, {title: "NACKED", right: true},
			{title: "STALE", right: true}, {title: "UNACKED", right: true}, {title: "NOTES", flexible: true},
		},
		[]topSort{{"trouble", byTrouble}, {"clients", byNumber}, {"name", byName(0)}},
		topNodes,
	},
	reasonsView: {
		"NACK reasons",
		[]topColumn{{title: "CLIENTS", right: true}, {title: "TYPE"}, {title: "KEYS", right: true}, {title: "SINCE", right: true}, {title: "REASON", flexible: true}},
		[]topSort{{"clients", byNumber}, {"since", bySince}, {"reason", byName(0)}},
		topReasons,
	},
}

// rows are those of the current table, sorted, that match the filter.
func (m *topModel) rows() []topRow {
	p := m.place()
	if m.data == nil || p.view == clientsView && m.data.query != m.query() {
		return nil
	}
	table := topTables[p.view]
	rows := slices.DeleteFunc(table.rows(m.data), func(r topRow) bool { return !m.matches(r.cells) })
	compare := table.sorts[m.sorts[p.view]].compare
	slices.SortStableFunc(rows, func(a, b topRow) int {
		c := cmp.Or(compare(&a.order, &b.order), byName(0)(&a.order, &b.order), strings.Compare(a.id, b.id))
		if m.reversed[p.view] {
			return -c
		}
		return c
	})
	return rows
}

// stateTrouble orders states by how much they need attention.
var stateTrouble = map[ops.State]float64{ops.Nacked: 4, ops.Stale: 3, ops.Unknown: 2, ops.MissingResource: 1}

func topClients(d *topData) (rows []topRow) {
	for i := range d.clients {
		c := &d.clients[i]
		var types []string
		for _, t := range c.Types {
			if t.State == c.State && c.State != ops.Synced {
				types = append(types, t.Name)
			}
		}
		state, trouble := string(c.State), stateTrouble[c.State]
		if c.Missing > 0 && trouble == 0 {
			state, trouble = "MISSING", stateTrouble[ops.MissingResource]
		}
		rows = append(rows, topRow{
			id: clientID(c), cells: []string{c.Name, c.Key, state, strings.Join(types, ","), ago(d.At, c.Since), c.Node},
			opens: topQuery{name: c.Name}, bad: trouble > 2, order: topOrder{trouble: trouble, since: c.Since, names: []string{c.Name, c.Key, c.Node}},
		})
	}
	return rows
}

// clientID distinguishes clients of one name.
func clientID(c *ops.Client) string {
	return strings.Join([]string{c.Name, c.Key, c.Peer, c.Node}, "\x00")
}

// share is a number with its percentage; empty for none.
func share(part, whole int) string {
	if part == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", part, strings.ReplaceAll(percent(part, whole), " ", ""))
}

func topKeys(d *topData) (rows []topRow) {
	for i := range d.Keys {
		k := &d.Keys[i]
		all := 0
		for _, n := range k.States {
			all += n
		}
		notes := admin.NotesOfKey(k.at)
		trouble := float64(k.States[ops.Nacked])*2 + float64(k.States[ops.Stale]+k.States[ops.Unknown])
		if notes != "" {
			trouble += 0.5
		}
		if k.at.State == "idle" {
			notes = "idle"
		}
		rows = append(rows, topRow{
			id: k.Key.Key, cells: []string{
				k.Key.Key, k.Owner, fmt.Sprintf("%.1f", k.UpdatesPerSecond), fmt.Sprint(k.Streams),
				share(k.States[ops.Synced], all), share(k.States[ops.Nacked], all), share(k.States[ops.Stale], all), notes,
			},
			opens: topQuery{key: k.Key.Key}, bad: k.States[ops.Nacked] > 0,
			order: topOrder{trouble: trouble, number: k.UpdatesPerSecond + float64(k.Streams)/1e9, names: []string{k.Key.Key, k.Owner}},
		})
	}
	return rows
}

func topNodes(d *topData) (rows []topRow) {
	notes := nodeNotes(d.snapshot)
	add := func(name string, cells []string, note string, trouble float64, clients int) {
		rows = append(rows, topRow{
			id: name, cells: append(append([]string{name}, cells...), note), opens: topQuery{node: name}, bad: note != "",
			order: topOrder{trouble: trouble, number: float64(clients), names: []string{name}},
		})
	}
	for _, n := range d.Summary.Nodes {
		trouble := float64(n.States[ops.Nacked])*2 + float64(n.States[ops.Stale])
		if notes[n.Node] != "" {
			trouble += 1e9
		}
		add(n.Node, []string{
			fmt.Sprint(n.Clients), fmt.Sprint(n.Streams), share(n.States[ops.Synced], n.Clients), share(n.States[ops.Nacked], n.Clients),
			share(n.States[ops.Stale], n.Clients), bytesText(n.Unacked),
		}, notes[n.Node], trouble, n.Clients)
	}
	for name, streams := range notAnswering(d.snapshot) {
		add(name, []string{"", streams, "", "", "", ""}, "does not answer", 2e9, 0)
	}
	return rows
}

func topReasons(d *topData) (rows []topRow) {
	for i := range d.Summary.Rejections {
		r := &d.Summary.Rejections[i]
		keys := fmt.Sprint(r.Keys)
		if r.MoreKeys {
			keys += "+"
		}
		rows = append(rows, topRow{
			id: r.URL + "\x00" + r.Message, cells: []string{share(r.Clients, d.Summary.Clients), r.Name, keys, ago(d.At, r.Since), r.Message},
			opens: topQuery{reason: r.Message, of: r.URL}, order: topOrder{number: float64(r.Clients), since: r.Since, names: []string{r.Message}},
		})
	}
	return rows
}
