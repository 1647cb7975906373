package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// WriteWarnings writes a line for each warning: level, text, duration and reason.
func WriteWarnings(w io.Writer, all []ops.Warning, now time.Time) {
	for _, one := range all {
		text := one.Text
		if !one.Since.IsZero() {
			problem, consequence, _ := strings.Cut(text, "; ")
			text = problem + " (for " + Ago(now, one.Since) + ")"
			if consequence != "" {
				text += "; " + consequence
			}
		}
		if detail, _, _ := strings.Cut(one.Detail, "\n"); detail != "" {
			text += ": " + ops.Cause(detail)
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", one.Level, Printable(text)) // fails only if the client has disconnected
	}
}
