package redact

import (
	"context"
	"fmt"
	"log/slog"
)

// Handler returns a handler that hides secrets in the records that it passes on to
// next, in messages, texts and errors. A text is bounded as by [Text].
func Handler(next slog.Handler) slog.Handler { return handler{next} }

type handler struct{ next slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(attr(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.next.WithAttrs(all(attrs))}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.next.WithGroup(name)} }

func all(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = attr(a)
	}
	return out
}

// attr is what may be logged of an attribute.
func attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(all(v.Group())...)}
	case slog.KindString:
		return slog.String(a.Key, textOf(a.Key, v.String()))
	case slog.KindAny:
		switch x := v.Any().(type) {
		case nil:
			return slog.Any(a.Key, nil)
		case []string:
			out := make([]string, len(x))
			for i, s := range x {
				out[i] = textOf(a.Key, s)
			}
			return slog.Any(a.Key, out)
		case error:
			return slog.String(a.Key, textOf(a.Key, x.Error()))
		default:
			return slog.String(a.Key, textOf(a.Key, fmt.Sprint(x)))
		}
	}
	return slog.Attr{Key: a.Key, Value: v} // numbers and times
}

func textOf(key, text string) string {
	if Sensitive(key) {
		return Mark
	}
	return Text(text)
}
