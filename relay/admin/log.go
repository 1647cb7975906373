package admin

import (
	"cmp"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"xdsrelay/relay/logs"
)

// logLevels shows which levels are logged.
func (cfg Config) logLevels(w http.ResponseWriter, r *http.Request) {
	if cfg.Levels == nil {
		http.Error(w, "the log levels of this node cannot be changed: its logger belongs to another program", http.StatusNotFound)
		return
	}
	writeLevels(w, r, cfg.Levels)
}

func writeLevels(w http.ResponseWriter, r *http.Request, levels *logs.Levels) {
	all := map[string]string{}
	for part, level := range levels.Get() {
		all[part] = strings.ToLower(level.String())
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, all)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	WriteLevels(w, all)
}

// WriteLevels writes the level of each part as a table.
func WriteLevels(w io.Writer, all map[string]string) {
	rows := [][]string{{"PART", "LEVEL"}}
	for _, part := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, []string{cmp.Or(part, "others"), all[part]})
	}
	WriteTable(w, rows)
}

// setLogLevel changes the level of a part, or with no part of all that have none of
// their own. It lasts until the node ends or its configuration is read again.
func (cfg Config) setLogLevel(w http.ResponseWriter, r *http.Request) {
	if cfg.Levels == nil {
		http.Error(w, "the log levels of this node cannot be changed: its logger belongs to another program", http.StatusNotFound)
		return
	}
	var level slog.Level
	q := r.URL.Query()
	if err := level.UnmarshalText([]byte(q.Get(paramLevel))); err != nil {
		http.Error(w, "level: got \""+strings.ToValidUTF8(q.Get(paramLevel), "?")+"\", expected debug, info, warn or error", http.StatusBadRequest)
		return
	}
	if err := cfg.Levels.SetPart(q.Get(paramPart), level); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeLevels(w, r, cfg.Levels)
}
