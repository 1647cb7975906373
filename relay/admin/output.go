package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"unicode"
)

// wantsJSON tells whether the answer should be for a program.
func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get("format") {
	case "json":
		return true
	case "":
		return strings.Contains(r.Header.Get("Accept"), "application/json")
	}
	return false
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // fails only where the client has gone
}

func writeText(w io.Writer, text string) {
	_, _ = io.WriteString(w, text) // fails only where the client has gone
}

// table writes rows as aligned columns, the first row being the header. Cells
// hold what clients and control planes chose, so only printable characters pass.
func table(w http.ResponseWriter, rows [][]string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if cell = printable(cell); cell == "" {
				cell = "-"
			}
			if i > 0 {
				cell = "\t" + cell
			}
			writeText(tw, cell)
		}
		writeText(tw, "\n")
	}
	_ = tw.Flush() // fails only where the client has gone
}

// printable makes a text safe for a terminal and for a line of a table.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
