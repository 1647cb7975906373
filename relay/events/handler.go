package events

import (
	"context"
	"log/slog"
	"slices"
)

// LevelQuiet is the level of lines that are events, and of which the log needs none unless it has
// those for debugging: there is one for each key.
const LevelQuiet = slog.LevelDebug + 1

// Handler returns a handler that passes lines on to next and records those with the attribute
// [Key], also if their level is below that of the log. Lines below [LevelQuiet] are no events.
func (r *Recorder) Handler(next slog.Handler) slog.Handler { return handler{next: next, recorder: r} }

type handler struct {
	next     slog.Handler
	recorder *Recorder
	own      []slog.Attr // of the logger
	grouped  int         // groups that are open: their attributes are not those of an event
}

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= LevelQuiet || h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, line slog.Record) error {
	h.note(line)
	if !h.next.Enabled(ctx, line.Level) {
		return nil
	}
	return h.next.Handle(ctx, line)
}

// note records an event if the line is one.
func (h handler) note(line slog.Record) {
	var kind Kind
	line.Attrs(func(a slog.Attr) bool {
		if a.Key == Key {
			kind, _ = a.Value.Any().(Kind)
		}
		return a.Key != Key
	})
	spec := specs[kind]
	if spec == nil {
		return
	}
	h.recorder.note(factOf(spec, line.Time, func(yield func(slog.Attr) bool) {
		for _, a := range h.own {
			if !yield(a) {
				return
			}
		}
		line.Attrs(yield)
	}))
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	if h.grouped == 0 {
		h.own = slices.Concat(h.own, attrs)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	h.grouped++
	return h
}
