package report

import (
	"math"
	"strconv"
	"strings"
)

// Unit says how a value is written.
type Unit string

// The units of values.
const (
	Micros  Unit = "µs"
	Millis  Unit = "ms"
	Seconds Unit = "s"
	Bytes   Unit = "B"
	Percent Unit = "%"
	Count   Unit = ""
)

// Format writes a value with three significant digits at most, sizes in the
// binary unit that suits them.
func (u Unit) Format(v float64) string {
	switch u {
	case Count:
		if v == math.Trunc(v) {
			return count(v)
		}
		return digits(v)
	case Bytes:
		for _, unit := range []string{"B", "KiB", "MiB"} {
			if math.Abs(v) < 1024 {
				return digits(v) + " " + unit
			}
			v /= 1024
		}
		return digits(v) + " GiB"
	}
	return digits(v) + " " + string(u)
}

// digits writes three significant digits, and whole numbers in full.
func digits(v float64) string {
	switch size := math.Abs(v); {
	case size >= 99.95:
		return count(math.Round(v))
	case size >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size < 0.005:
		return "0"
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// count writes a whole number with commas.
func count(v float64) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	var b strings.Builder
	if v < 0 {
		b.WriteByte('-')
	}
	for i, digit := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return b.String()
}
