package logs

import (
	"context"
	"io"
	"log/slog"

	"xdsrelay/relay/redact"
	"xdsrelay/relay/telemetry"
)

// Config says how lines are written.
type Config struct {
	// JSON writes JSON, else text.
	JSON bool
	// Levels are those in force. Required.
	Levels *Levels
	// Repeats is how many lines of one kind are written in a minute: those of one
	// part that say the same of maybe different things. What is left out is counted in
	// the next one. 0 means all.
	Repeats int
}

// New makes a logger that writes to w, without secrets (see [redact.Handler]), and with
// the trace that a line belongs to.
func New(w io.Writer, cfg Config) *slog.Logger {
	// What is below its level has been dropped already.
	options := &slog.HandlerOptions{Level: slog.Level(-1 << 16)}
	var lines slog.Handler = slog.NewTextHandler(w, options)
	if cfg.JSON {
		options.ReplaceAttr = readable
		lines = slog.NewJSONHandler(w, options)
	}
	h := handler{lines: telemetry.LogHandler(redact.Handler(lines)), levels: cfg.Levels, level: cfg.Levels.of("")}
	if cfg.Repeats > 0 {
		h.repeats = newRepeats(cfg.Repeats)
	}
	return slog.New(h)
}

// readable writes durations as in the text format, "20s", where JSON would have
// nanoseconds without a unit.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// handler drops lines below the level of their part, and those that repeat others.
type handler struct {
	lines   slog.Handler
	levels  *Levels
	part    string
	level   *slog.LevelVar // of the part
	repeats *repeats       // nil where nothing is left out
}

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if h.repeats != nil && r.Level >= slog.LevelInfo {
		write, missed := h.repeats.take(r.Time, kind{h.part, r.Message, r.Level})
		if !write {
			return nil
		}
		if missed > 0 {
			r = r.Clone()
			r.AddAttrs(slog.Int("left_out", missed))
		}
	}
	return h.lines.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key == partKey {
			h.part = a.Value.String()
			h.level = h.levels.of(h.part)
		}
	}
	h.lines = h.lines.WithAttrs(attrs)
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.lines = h.lines.WithGroup(name)
	return h
}
