package admin

import (
	"io"
	"net/http"
	"strings"
	"time"

	"xdsrelay/relay/ops"
)

// settings shows what became of the configuration.
func (cfg Config) settings(w http.ResponseWriter, r *http.Request) {
	writeSettings(w, r, http.StatusOK, cfg.Settings())
}

// reload reads the configuration again.
func (cfg Config) reload(w http.ResponseWriter, r *http.Request) {
	s, err := cfg.Reload()
	switch {
	case err != nil && s.Rejected == "": // there is nothing that could be read
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		writeSettings(w, r, http.StatusUnprocessableEntity, s)
	default:
		writeSettings(w, r, http.StatusOK, s)
	}
}

func writeSettings(w http.ResponseWriter, r *http.Request, status int, s ops.Settings) {
	if wantsJSON(r) {
		writeJSON(w, status, s)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	WriteSettings(w, s)
}

// WriteSettings writes the state of the configuration for people.
func WriteSettings(w io.Writer, s ops.Settings) {
	from := "flags and environment variables"
	if s.File != "" {
		from = Printable(s.File)
	}
	writeText(w, "active configuration: loaded at "+s.Loaded.UTC().Format(time.RFC3339)+" from "+from+"\n")
	if len(s.Restart) > 0 {
		writeText(w, "changed, effective after a restart: "+Printable(strings.Join(s.Restart, ", "))+"\n")
	}
	if s.Rejected != "" {
		writeText(w, "new configuration rejected at "+s.RejectedAt.UTC().Format(time.RFC3339)+", the active one stays:\n")
		for line := range strings.Lines(s.Rejected) {
			writeText(w, "  "+Printable(strings.TrimRight(line, "\n"))+"\n")
		}
	}
}
