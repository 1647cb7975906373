package relay

import (
	"io"
	"log/slog"

	"xdsrelay/relay/config"
	"xdsrelay/relay/redact"
)

// NewLogger makes the logger that cfg describes, which writes to w. Whatever a part
// logs of what clients and origins have sent, secrets do not get into the log.
func NewLogger(w io.Writer, cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level.Level()}
	if cfg.Format == config.FormatJSON {
		return slog.New(redact.Handler(slog.NewJSONHandler(w, options)))
	}
	return slog.New(redact.Handler(slog.NewTextHandler(w, options)))
}
