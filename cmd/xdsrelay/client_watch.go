package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"xdsrelay/relay/ops"
	"xdsrelay/relay/xdsget"
)

// updatePrinter prints what happens to a client, line by line. Several streams may call it at once.
type updatePrinter struct {
	app   *app
	flags *clientFlags
	out   *output
	began time.Time

	mu      sync.Mutex
	updates int // guarded by mu until the session is closed
	last    string
}

// updateData is an update for programs.
type updateData struct {
	Time     time.Time    `json:"time"`
	URL      string       `json:"type_url"`
	Version  string       `json:"version,omitempty"`
	Rejected string       `json:"rejected,omitempty"`
	Added    []updateItem `json:"added,omitempty"`
	Changed  []updateItem `json:"changed,omitempty"`
	Removed  []updateItem `json:"removed,omitempty"`
	Missing  []updateItem `json:"missing,omitempty"`
}

// updateItem is a resource of an update.
type updateItem struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// event prints an event: updates on standard output, streams on standard error.
func (p *updatePrinter) event(e xdsget.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Update != nil:
		p.last = ""
		p.updates++
		p.update(e.At, e.Update)
	case e.Err != nil:
		line := e.Err.Error()
		if !e.Err.Final {
			line += "; retrying"
		}
		p.note(e.At, line)
	default:
		p.note(e.At, "connected to "+p.flags.server)
	}
}

// note prints a line about the connection, unless it repeats the last one.
func (p *updatePrinter) note(at time.Time, line string) {
	if line != p.last {
		fmt.Fprintf(p.app.stderr, "%s  %s\n", at.Format(time.TimeOnly), printable(line))
	}
	p.last = line
}

// update prints one update.
func (p *updatePrinter) update(at time.Time, u *xdsget.Update) {
	w := p.app.stdout
	if p.out.isData() {
		p.data(at, u)
		return
	}
	typ := ops.ShortName(u.TypeURL)
	if p.out.form == asName {
		for _, items := range [][]xdsget.Item{u.Added, u.Changed} {
			for _, i := range items {
				fmt.Fprintf(w, "%s/%s\n", typ, printable(i.Name))
			}
		}
		return
	}
	line := func(what, name, rest string) {
		text := fmt.Sprintf("%s  %-4s  %-8s  %-24s", at.Format(time.TimeOnly), typ, what, printable(name))
		if rest != "" {
			text += "  " + printable(rest)
		}
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
	version := func(v string) string {
		if p.out.form == asWide {
			return v
		}
		return shortVersion(v)
	}
	if u.Rejected != "" {
		line("rejected", "version "+version(u.Version)+":", u.Rejected)
	}
	for _, of := range []struct {
		what  string
		items []xdsget.Item
	}{{"added", u.Added}, {"changed", u.Changed}, {"removed", u.Removed}, {"missing", u.Absent}} {
		for _, i := range of.items {
			rest := version(i.Version)
			if of.what == "missing" {
				rest = i.Reason
			}
			line(of.what, i.Name, rest)
		}
	}
	if u.Rejected == "" && len(u.Added)+len(u.Changed)+len(u.Removed)+len(u.Absent) == 0 {
		line("same", "version "+version(u.Version), "")
	}
}

// data prints one update as a line of JSON, or as a YAML document.
func (p *updatePrinter) data(at time.Time, u *xdsget.Update) {
	items := func(of []xdsget.Item) (all []updateItem) {
		for _, i := range of {
			all = append(all, updateItem(i))
		}
		return all
	}
	d := updateData{
		Time: at.UTC(), URL: u.TypeURL, Version: u.Version, Rejected: u.Rejected,
		Added: items(u.Added), Changed: items(u.Changed), Removed: items(u.Removed), Missing: items(u.Absent),
	}
	if p.out.form == asYAML {
		fmt.Fprintln(p.app.stdout, "---")
		_ = p.out.data(p.app.stdout, d) // a broken pipe ends the program
		return
	}
	if text, err := json.Marshal(d); err == nil {
		fmt.Fprintf(p.app.stdout, "%s\n", printableJSON(text))
	}
}
