package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"xdsrelay/relay/admin"
	"xdsrelay/relay/ops"
)

// hostile are names that would break a screen if they reached it as they are.
var hostile = []string{"\x1b[2J\x1b[31mred", "wide-世界世界世界世界世界世界世界世界世界世界", "line\nbreak\ttab\r", "right\u202eto-left", strings.Repeat("long-", 60)}

// topExample is a tier with clients in all states.
func topExample(t *testing.T) *topData {
	t.Helper()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	d := &topData{snapshot: &snapshot{At: at}}
	for i := range 40 {
		name, key := fmt.Sprintf("envoy-%02d", i), []string{"shop/eu", "shop/us", "edge"}[i%3]
		if i < len(hostile) {
			name = hostile[i]
		}
		c := ops.Client{
			Name: name, Key: key, Node: []string{"relay-0", "relay-1"}[i%2], Peer: fmt.Sprint("10.0.0.", i, ":1"), State: ops.Synced,
			Variants: []string{"delta"}, Streams: 1, Connected: at.Add(-time.Hour), Since: at.Add(-time.Duration(i) * time.Minute),
		}
		cds := ops.Type{URL: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Name: "CDS", Version: "v7", Wildcard: true, SentAt: at.Add(-time.Minute)}
		switch i % 8 {
		case 1:
			c.State = ops.Nacked
			cds.Nack = &ops.Nack{Message: "unknown cluster type \x1b[1mstrict_dns_" + strings.Repeat("x", 100), Version: "v7", Code: 3, At: at.Add(-time.Hour)}
		case 3:
			c.State = ops.Stale
			cds.Waiting = "awaiting ACK"
		case 5:
			c.Missing = 2
		}
		cds.State, cds.Since = c.State, c.Since
		c.Types = []ops.Type{cds}
		d.clients = append(d.clients, c)
	}
	states := ops.Count{ops.Nacked: 5, ops.Stale: 5, ops.Synced: 30}
	d.Summary = ops.Summary{
		Clients: 40, Streams: 40, Missing: 5, States: states, Unknown: 12, Silent: []ops.Silent{{Node: "relay-2", Error: "no answer within 3s", Clients: 12}},
		Nodes:      []ops.Sums{{Node: "relay-0", Clients: 20, Streams: 20, States: ops.Count{ops.Synced: 20}}, {Node: "relay-1", Clients: 20, Streams: 20, States: ops.Count{ops.Synced: 10, ops.Nacked: 5, ops.Stale: 5}}},
		Rejections: []ops.Rejection{{URL: d.clients[1].Types[0].URL, Name: "CDS", Message: d.clients[1].Types[0].Nack.Message, Clients: 5, Keys: 3, Since: at.Add(-time.Hour), Client: "envoy-01"}},
	}
	d.Nodes = admin.NodesNow{Members: ops.Members{Self: "relay-0"}, Warnings: []ops.Warning{
		{Level: "error", Text: "Node relay-2 does not answer; the states of its 12 streams are unknown"}, {Level: "error", Text: "5 clients have rejected (NACK) the newest version"},
	}}
	for i, k := range []string{"edge", hostile[1], "shop/eu", "shop/us"} {
		one := keyActivity{Key: ops.Key{Key: k, Owner: "relay-0"}, UpdatesPerSecond: float64(i), Streams: 10, States: ops.Count{ops.Synced: 10 - i, ops.Nacked: i}}
		one.at.HeldRemovals = i % 2
		d.Keys = append(d.Keys, one)
	}
	return d
}

// topRun is a model with what it asks for.
type topRun struct {
	t     *testing.T
	model topModel
	asked []topQuery
	data  *topData
}

func startTop(t *testing.T, width, height int) *topRun {
	r := &topRun{t: t, data: topExample(t)}
	r.model = newTopModel(time.Second, func(_ *snapshot, q topQuery) tea.Cmd {
		r.asked = append(r.asked, q)
		return nil
	})
	_ = r.model.Init()
	r.send(tea.WindowSizeMsg{Width: width, Height: height})
	r.answer()
	return r
}

func (r *topRun) send(msg tea.Msg) {
	next, _ := r.model.Update(msg)
	r.model = next.(topModel)
}

// answer answers the last request, as a node would.
func (r *topRun) answer() {
	for {
		n := len(r.asked)
		d := *r.data
		d.query, d.clients = r.asked[n-1], nil
		for _, c := range r.data.clients {
			if q := d.query; (q.key == "" || c.Key == q.key) && (q.node == "" || c.Node == q.node) && (q.name == "" || c.Name == q.name) && strings.Contains(c.Name, q.search) && rejectsFor(&c, q) {
				d.clients = append(d.clients, c)
			}
		}
		if r.send(topAnswer{data: &d, at: d.At}); len(r.asked) == n {
			return
		}
	}
}

// press sends keys by name, or each letter of a text.
func (r *topRun) press(keys ...string) {
	r.t.Helper()
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "end": tea.KeyEnd, "pgdown": tea.KeyPgDown, "backspace": tea.KeyBackspace, "tab": tea.KeyTab}
	for _, k := range keys {
		if code, ok := codes[k]; ok {
			r.send(tea.KeyPressMsg{Code: code})
		} else {
			for _, letter := range k {
				r.send(tea.KeyPressMsg{Code: letter, Text: string(letter)})
			}
		}
		r.answer()
	}
}

// screen is the plain text of the screen, which must fit.
func (r *topRun) screen() string {
	r.t.Helper()
	content := r.model.View().Content
	text := ansi.Strip(content)
	lines := strings.Split(text, "\n")
	if len(lines) != r.model.height {
		r.t.Errorf("%d lines on a screen of %d:\n%s", len(lines), r.model.height, text)
	}
	for i, line := range lines {
		if w := ansi.StringWidth(line); w > r.model.width {
			r.t.Errorf("line %d takes %d of %d columns: %q", i, w, r.model.width, line)
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	for _, bad := range []string{"\x1b[2J", "\x1b[31mred", "\t", "\r", "\u202e"} {
		if strings.Contains(content, bad) {
			r.t.Errorf("the screen has %q", bad)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestTopScreens: the screens of the interactive top, in a small and a large terminal. Hostile names
// neither break the layout nor reach the terminal.
func TestTopScreens(t *testing.T) {
	files := map[string]string{}
	for _, size := range [][2]int{{80, 24}, {120, 40}} {
		for _, s := range []struct {
			name string
			keys []string
		}{
			{"clients", nil},
			{"keys", []string{"2"}},
			{"nodes", []string{"3"}},
			{"reasons", []string{"4"}},
			{"key_clients", []string{"2", "enter"}},
			{"reason_clients", []string{"4", "enter"}},
			{"client", []string{"4", "enter", "enter"}},
			{"filter", []string{"/", "envoy-1"}},
			{"no_match", []string{"2", "/", "none"}},
			{"by_name", []string{"s", "s", "r", "end"}},
		} {
			r := startTop(t, size[0], size[1])
			r.press(s.keys...)
			files[fmt.Sprintf("%s_%dx%d.txt", s.name, size[0], size[1])] = r.screen()
		}
	}
	compareGolden(t, filepath.Join("testdata", "golden", "top"), files)
}

// TestTopIsWholeAtEightyColumns: neither the details of a client nor the counts by state lose a column
// in a terminal of the usual width.
func TestTopIsWholeAtEightyColumns(t *testing.T) {
	r := startTop(t, 80, 60)
	digest := strings.Repeat("0123456789abcdef", 2)
	for i := range r.data.clients {
		cds := &r.data.clients[i].Types[0]
		cds.Version, cds.ControlPlaneVersion, cds.Acks, cds.Nacks = digest, digest, 23456, 678
	}
	r.data.Summary.Clients, r.data.Summary.Missing = 40_000, 12_345
	r.data.Summary.States = ops.Count{ops.Nacked: 12_345, ops.Stale: 12_345, ops.Synced: 15_310}
	r.press("4", "enter", "enter")
	s := r.screen()
	for _, part := range []string{"NACKED 12345", "missing 12345", "SUBSCRIBED TO", "ACKED GENERATION", "ACKS", "23456", "NACKS", "678", "CONTROL PLANE VERSION", digest} {
		if !strings.Contains(s, part) {
			t.Errorf("no %q", part)
		}
	}
	for line := range strings.Lines(s) {
		if strings.Contains(line, "…") && !strings.HasPrefix(line, "error: ") {
			t.Errorf("cut: %s", line)
		}
	}
	if t.Failed() {
		t.Log(s)
	}
}

// TestTopKeys: keys select, open, go back, filter, sort and quit.
func TestTopKeys(t *testing.T) {
	r := startTop(t, 80, 24)
	selected := func() string { return strings.SplitN(r.model.place().selected, "\x00", 2)[0] }
	first := selected()
	r.press("down")
	second := selected()
	if r.press("up"); first == second || selected() != first {
		t.Errorf("down and up: %q, %q, %q", first, second, selected())
	}
	r.press("down")
	r.data.clients = r.data.clients[1:] // another client has gone; the selection stays
	if r.send(topTick{}); selected() != second {
		t.Errorf("after an update, %q is selected, not %q", selected(), second)
	}
	r.answer()
	r.press("2", "enter")
	if q := r.asked[len(r.asked)-1]; q.key == "" {
		t.Errorf("enter on a key asked for %+v", q)
	}
	r.press("enter")
	if q := r.asked[len(r.asked)-1]; q.name == "" {
		t.Errorf("enter on a client asked for %+v", q)
	}
	r.press("esc", "esc")
	if r.model.place().view != keysView || len(r.model.places) != 1 {
		t.Errorf("esc leads to %+v", r.model.places)
	}
	r.press("1", "/", "q", "q", "backspace", "enter")
	if r.model.filter != "q" || r.model.typing {
		t.Errorf("the filter is %q", r.model.filter)
	}
	if r.press("esc"); r.model.filter != "" {
		t.Error("esc does not clear the filter")
	}
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		if _, cmd := r.model.Update(key); cmd == nil || fmt.Sprintf("%T", cmd()) != "tea.QuitMsg" {
			t.Errorf("%s does not quit", key.Keystroke())
		}
	}
}

// TestTopErrors: an error is shown with the age of what is on the screen, which stays; small
// terminals and early keys do no harm.
func TestTopErrors(t *testing.T) {
	r := startTop(t, 80, 24)
	r.send(topAnswer{err: errors.New("connection \x1b[31mrefused"), at: r.data.At.Add(time.Minute)})
	if s := r.screen(); !strings.Contains(s, "last answer 1m0s ago: connection ?[31mrefused") || !strings.Contains(s, "envoy-") {
		t.Errorf("the screen is\n%s", s)
	}
	for _, size := range [][2]int{{1, 1}, {20, 5}, {300, 100}} {
		r.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		r.screen()
		r.press("end", "pgdown", "enter")
		r.screen()
		r.press("esc")
	}
	empty := topRun{t: t, data: &topData{snapshot: &snapshot{}}}
	empty.model = newTopModel(time.Second, func(*snapshot, topQuery) tea.Cmd { return nil })
	for _, k := range []string{"enter", "down", "s", "tab"} {
		empty.send(tea.KeyPressMsg{Code: []rune(k)[0], Text: k})
		empty.screen()
	}
}
