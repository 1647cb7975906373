package admin

import (
	"fmt"
	"io"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// WriteWarnings writes a line for each: how bad it is, since when, and why.
func WriteWarnings(w io.Writer, all []ops.Warning, now time.Time) {
	for _, one := range all {
		text := one.Text
		if !one.Since.IsZero() {
			text += ", for " + Ago(now, one.Since)
		}
		if detail, _, _ := strings.Cut(one.Detail, "\n"); detail != "" {
			text += ": " + ops.Cause(detail)
		}
		_, _ = fmt.Fprintf(w, "%s: %s\n", one.Level, Printable(text)) // who asked has gone
	}
}
