package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"xdsrelay/relay/admin"
)

// warningLines tells what an operator should look at in the tier beside its clients:
// SYNCED means that a client has what its node has, and the origin of that may be away.
// A node that is too old to be asked has nothing to say.
func (a *app) warningLines(ctx context.Context, node *remote, now time.Time) {
	var live admin.Live
	if _, err := node.get(ctx, "/api/v1/live", nil, &live); err != nil {
		return
	}
	for _, w := range live.Warnings {
		if w.Kind == admin.AboutSilence || w.Kind == admin.AboutClients {
			continue // the table and the lines below it tell
		}
		text := w.Text
		if !w.Since.IsZero() {
			text += ", for " + ago(now, w.Since)
		}
		if detail, _, _ := strings.Cut(w.Detail, "\n"); detail != "" {
			text += ": " + detail
		}
		fmt.Fprintf(a.stderr, "%s: %s\n", w.Level, printable(text))
	}
}
