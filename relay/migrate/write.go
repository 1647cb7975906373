package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// writer writes the configuration. Notes of a section are written as comments above
// it, and those of none at the head of the file.
type writer struct {
	*decoder
	b       strings.Builder
	written []string // sections
	told    []note
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(&w.b, format+"\n", args...) }

// comment wraps a text into lines of comment.
func comment(text string) string {
	const width = 92
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > width && line != "#" {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// section writes the notes of a section and begins it; fields follow.
func (w *writer) section(name string) {
	if slices.Contains(w.written, name) {
		return
	}
	notes := w.take(name)
	if len(notes) == 0 && name == "aggregation" {
		return
	}
	w.written = append(w.written, name)
	w.b.WriteByte('\n')
	for _, n := range notes {
		w.b.WriteString(comment(n.text))
	}
}

// take removes the notes of a section, and remembers that they are told.
func (w *writer) take(section string) (notes []note) {
	rest := w.notes[:0:0]
	for _, n := range w.notes {
		if n.section == section {
			notes = append(notes, n)
		} else {
			rest = append(rest, n)
		}
	}
	w.notes = rest
	w.told = append(w.told, notes...)
	return notes
}

// head says what this is, and the notes that belong to no section that was written.
func (w *writer) head(files []string) string {
	var b strings.Builder
	b.WriteString(comment("The configuration for xdsrelay that matches " + listed(files) + " of xds-relay. Written by 'xdsrelay migrate'; comments describe what is different."))
	for _, n := range w.notes {
		b.WriteString("#\n" + comment(n.text))
	}
	return b.String()
}

// warnings are all notes, in the order of the files.
func (w *writer) warnings(files []string) []Problem {
	var out []Problem
	for _, n := range append(slices.Clone(w.told), w.notes...) {
		out = append(out, *problem(n.at, "%s", n.text))
	}
	slices.SortStableFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)), cmp.Compare(a.Line, b.Line))
	})
	return out
}

func (w *writer) bootstrap(b *bootstrap) {
	if b == nil {
		return
	}
	if !b.listen.loopback() {
		w.note(b.listen.at, "listener", "Without TLS, as in xds-relay: every process that can connect to the port can read the configuration of any client. See listener.tls.")
	}
	v2 := slices.ContainsFunc(w.types, isV2)
	if v2 {
		w.note(place{}, "listener", "The rules name types of version 2. Delete xds_v2 if no client asks for them any more.")
	}
	w.section("listener")
	w.line("listener:")
	w.line("  address: %s", strconv.Quote(b.listen.String()))
	if !b.listen.loopback() {
		w.line("  allow_plaintext: true")
	}
	if v2 {
		w.line("downstream:")
		w.line("  xds_v2: true")
	}
	w.section("upstream")
	w.line("upstream:")
	w.line("  addresses: [%s]", strconv.Quote(b.origin.String()))
	w.line("  variant: sotw # as xds-relay; delta costs less where the control plane supports it")
	w.cache(b)
	if b.admin.set {
		w.admin(b)
	}
	if b.level != "" {
		w.section("log")
		w.line("log:")
		w.line("  level: %s", b.level)
	}
}

func isV2(url string) bool { return strings.Contains(url, "/envoy.api.v2.") }

func (w *writer) cache(b *bootstrap) {
	w.note(b.ttlAt, "cache", "ttl is no longer how long a key lives, but how long one stays subscribed that no client wants any more.")
	w.section("cache")
	if b.ttl == 0 { // it meant never
		w.line("cache: {}")
		return
	}
	w.line("cache:")
	w.line("  linger: %s", b.ttl)
}

func (w *writer) admin(b *bootstrap) {
	a := b.admin
	if !a.loopback() {
		w.note(a.at, "admin", "The admin port shows every client and takes orders, so on other addresses than loopback it requires TLS and a token (admin.tls, admin.token_file). "+
			"Here it is on loopback; metrics.address opens a port with metrics and health alone.")
		a.host = "127.0.0.1"
	}
	w.section("admin")
	w.line("admin:")
	w.line("  address: %s", strconv.Quote(a.String()))
}
