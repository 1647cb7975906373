package relay

import (
	"io"
	"log/slog"

	"xdsrelay/relay/config"
)

// NewLogger makes the logger that cfg describes, which writes to w.
func NewLogger(w io.Writer, cfg config.Log) *slog.Logger {
	options := &slog.HandlerOptions{Level: cfg.Level.Level()}
	if cfg.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
