package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"unicode"
)

// wantsJSON tells whether the answer should be for a program.
func wantsJSON(r *http.Request) bool {
	switch r.URL.Query().Get(paramFormat) {
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

// table answers with a table.
func table(w http.ResponseWriter, rows [][]string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	WriteTable(w, rows)
}

// Printable makes a text safe for a terminal and for a line of a table: what cannot be
// seen there stands as "?". Names and reasons are what clients and origins chose.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
