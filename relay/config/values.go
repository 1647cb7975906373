package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// Variant is one of the two variants of xDS.
type Variant string

// The variants.
const (
	SotW  Variant = "sotw"
	Delta Variant = "delta"
)

// UnmarshalText takes the name of a variant.
func (v *Variant) UnmarshalText(text []byte) error { return oneOf(v, text, SotW, Delta) }

// XDSVersion is a version of the xDS transport protocol.
type XDSVersion string

// The versions.
const (
	V3 XDSVersion = "v3"
	V2 XDSVersion = "v2"
)

// UnmarshalText takes the name of a version.
func (t *XDSVersion) UnmarshalText(text []byte) error { return oneOf(t, text, V3, V2) }

// WildcardForm is how a wildcard subscription is written upstream (D10).
type WildcardForm string

// The forms.
const (
	WildcardLegacy WildcardForm = "legacy"
	WildcardStar   WildcardForm = "star"
)

// UnmarshalText takes the name of a form.
func (w *WildcardForm) UnmarshalText(text []byte) error {
	return oneOf(w, text, WildcardLegacy, WildcardStar)
}

// Level is the least level that is logged.
type Level string

// The levels.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// UnmarshalText takes the name of a level.
func (l *Level) UnmarshalText(text []byte) error {
	return oneOf(l, text, LevelDebug, LevelInfo, LevelWarn, LevelError)
}

// Level is the same for slog.
func (l Level) Level() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l)) // an unknown one, which no config holds, is info
	return level
}

// Format is how log lines are written.
type Format string

// The formats.
const (
	FormatText Format = "text"
	FormatJSON Format = "json"
)

// UnmarshalText takes the name of a format.
func (f *Format) UnmarshalText(text []byte) error { return oneOf(f, text, FormatText, FormatJSON) }

// oneOf takes a text that must be one of the names.
func oneOf[T ~string](to *T, text []byte, names ...T) error {
	known := make([]string, len(names))
	for i, name := range names {
		if name == T(text) {
			*to = name
			return nil
		}
		known[i] = string(name)
	}
	return fmt.Errorf("expected %s%s", list(known, "or"), didYouMean(string(text), known))
}

// list writes names as in a sentence.
func list(names []string, conjunction string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}

// CompressionMode is which responses are compressed.
type CompressionMode string

// The modes. YAML of version 1.1, as in Helm, takes off for false, so the last is never.
const (
	CompressionAuto   CompressionMode = "auto"
	CompressionAlways CompressionMode = "always"
	CompressionNever  CompressionMode = "never"
)

// UnmarshalText takes the name of a mode.
func (m *CompressionMode) UnmarshalText(text []byte) error {
	return oneOf(m, text, CompressionAuto, CompressionAlways, CompressionNever)
}

// Size is a number of bytes, written with a unit: 512B, 64KiB, 16MiB, 1GiB.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText takes a whole number with a unit.
func (s *Size) UnmarshalText(text []byte) error {
	const expected = "expected a size like 512KiB or 64MiB (units: B, KiB, MiB, GiB)"
	if string(text) == "0" {
		*s = 0
		return nil
	}
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(string(text), unit.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		switch {
		case err != nil:
			return errors.New(expected)
		case n > math.MaxInt64/uint64(unit.bytes):
			return fmt.Errorf("is too large, %s", expected)
		}
		*s = Size(int64(n) * unit.bytes)
		return nil
	}
	return errors.New(expected)
}

// String writes the size in the largest unit that leaves it whole.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return "0B"
}
