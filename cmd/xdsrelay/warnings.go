package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"xdsrelay/relay/admin"
)

// warningLines tells what an operator should look at in the tier beside its clients:
// SYNCED means that a client has what its node has, and the origin of that may be away.
// A node that is too old to be asked has nothing to say.
func warningLines(ctx context.Context, w io.Writer, node *remote, now time.Time) {
	var live admin.Live
	if _, err := node.get(ctx, "/api/v1/live", nil, &live); err != nil {
		return
	}
	for _, one := range live.Warnings {
		if one.Kind == admin.AboutSilence || one.Kind == admin.AboutClients {
			continue // the table and the lines below it tell
		}
		text := one.Text
		if !one.Since.IsZero() {
			text += ", for " + ago(now, one.Since)
		}
		if detail, _, _ := strings.Cut(one.Detail, "\n"); detail != "" {
			text += ": " + detail
		}
		fmt.Fprintf(w, "%s: %s\n", one.Level, printable(text))
	}
}
