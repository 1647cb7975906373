package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"xdsrelay/relay/logs"
)

// Own returns the levels of parts that have their own.
func (l Log) Own() map[string]slog.Level {
	own := make(map[string]slog.Level, len(l.Levels))
	for _, text := range l.Levels {
		if part, level, err := PartLevel(text); err == nil { // else it was refused before
			own[part] = level
		}
	}
	return own
}

// PartLevel reads the level of a part of the log, written as part=level. The error says
// what was expected.
func PartLevel(text string) (part string, level slog.Level, err error) {
	part, name, is := strings.Cut(text, "=")
	if !is {
		return "", 0, fmt.Errorf("expected part=level, like %s=debug", logs.Origin)
	}
	if parts := logs.Parts(); !slices.Contains(parts, part) {
		return "", 0, fmt.Errorf("unknown log part %q, expected %s%s", shorten(part), list(parts, "or"), didYouMean(part, parts))
	}
	var l Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return "", 0, fmt.Errorf("unknown level %q, %w", shorten(name), err)
	}
	return part, l.Level(), nil
}

func (d *decoder) checkLog(cfg *Config) {
	seen := make(map[string]bool)
	for i, text := range cfg.Log.Levels {
		field := fmt.Sprintf("log.levels[%d]", i)
		part, _, err := PartLevel(text)
		switch {
		case err != nil:
			d.wrong(field, "got %q: %s", shorten(text), err)
		case seen[part]:
			d.wrong(field, "lists %s twice", part)
		}
		seen[part] = true
	}
}
