package relay

import (
	"io"
	"log/slog"

	"xdsrelay/relay/config"
	"xdsrelay/relay/logs"
)

// NewLogger makes the logger that cfg describes, which writes to w, and its levels,
// which may change while it is used. Whatever a part logs of what clients and origins
// have sent, secrets do not get into the log.
func NewLogger(w io.Writer, cfg config.Log) (*slog.Logger, *logs.Levels) {
	levels := logs.NewLevels(cfg.Level.Level())
	levels.Set(cfg.Level.Level(), cfg.Own())
	return logs.New(w, logs.Config{JSON: cfg.Format == config.FormatJSON, Levels: levels, Repeats: cfg.MaxRepeatsPerMinute}), levels
}
