package admin

import (
	"cmp"
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
		http.Error(w, "this node does not own the log", http.StatusNotFound)
		return
	}
	writeLevels(w, r, cfg.Levels)
}

func writeLevels(w http.ResponseWriter, r *http.Request, levels *logs.Levels) {
	all := levels.Get()
	if wantsJSON(r) {
		out := make(map[string]string, len(all))
		for part, level := range all {
			out[part] = strings.ToLower(level.String())
		}
		writeJSON(w, http.StatusOK, out)
		return
	}
	rows := [][]string{{"PART", "LEVEL"}}
	for _, part := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, []string{cmp.Or(part, "others"), strings.ToLower(all[part].String())})
	}
	table(w, rows)
}

// setLogLevel changes the level of a part, or with no part of all that have none of
// their own. It lasts until the node ends or its configuration is read again.
func (cfg Config) setLogLevel(w http.ResponseWriter, r *http.Request) {
	if cfg.Levels == nil {
		http.Error(w, "this node does not own the log", http.StatusNotFound)
		return
	}
	var level slog.Level
	q := r.URL.Query()
	if err := level.UnmarshalText([]byte(q.Get(paramLevel))); err != nil {
		http.Error(w, "?level= is "+strings.ToValidUTF8(q.Get(paramLevel), "?")+", expected debug, info, warn or error", http.StatusBadRequest)
		return
	}
	if err := cfg.Levels.SetPart(q.Get(paramPart), level); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeLevels(w, r, cfg.Levels)
}
