package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"
	"golang.org/x/term"

	"xdsrelay/relay/ops"
)

// Bounds of the clients that the interactive top shows: of a table, and of those among which it
// looks for a reason.
const (
	mostTopClients = 300
	mostSearched   = 2000
)

// keyboard reports whether the input is a terminal.
func (a *app) keyboard() bool { return term.IsTerminal(int(os.Stdin.Fd())) }

// interactiveTop shows the activity of a tier until the user quits.
func (a *app) interactiveTop(ctx context.Context, node *remote, every time.Duration, screen *os.File) error {
	if _, err := node.target(); err != nil {
		return err
	}
	fetch := func(last *snapshot, q topQuery) tea.Cmd {
		return func() tea.Msg {
			data, err := node.lookFor(ctx, last, q)
			return topAnswer{data, err, time.Now()}
		}
	}
	_, err := tea.NewProgram(newTopModel(every, fetch), tea.WithContext(ctx), tea.WithEnvironment(a.env), tea.WithOutput(screen), tea.WithoutSignalHandler()).Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted), errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil:
		err = nil // the user has ended it
	}
	return err
}

// lookFor takes a snapshot with the clients of a query, those with problems first.
func (r *remote) lookFor(ctx context.Context, last *snapshot, q topQuery) (*topData, error) {
	now, err := r.look(ctx, last)
	if err != nil {
		return nil, err
	}
	d := &topData{snapshot: now, query: q}
	limit := mostTopClients
	v := url.Values{}
	for name, text := range map[string]string{"client": q.name, "key": q.key, "node": q.node, "search": q.search} {
		if text != "" {
			v.Set(name, text)
		}
	}
	states := []string{"nacked,stale,unknown,missing", "synced,not_sent"}
	switch {
	case q.reason != "":
		states, limit = []string{"nacked"}, mostSearched
	case q.name != "":
		states = []string{""}
	}
	seen := map[string]bool{}
	for _, s := range states {
		if len(d.clients) >= limit {
			d.more = true
			break
		}
		v.Set("limit", fmt.Sprint(limit-len(d.clients)))
		if v.Del("state"); s != "" {
			v.Set("state", s)
		}
		var page ops.Page
		if _, err := r.get(ctx, "/api/v1/clients", v, &page); err != nil {
			return nil, err
		}
		d.more = d.more || page.Next != ""
		for _, c := range page.Clients {
			if id := clientID(&c); !seen[id] && rejectsFor(&c, q) {
				seen[id] = true
				d.clients = append(d.clients, c)
			}
		}
	}
	return d, nil
}

// rejectsFor reports whether a client rejects for the reason of a query, if it has one.
func rejectsFor(c *ops.Client, q topQuery) bool {
	return q.reason == "" || slices.ContainsFunc(c.Types, func(t ops.Type) bool {
		return t.URL == q.of && t.Nack != nil && t.Nack.Message == q.reason
	})
}
