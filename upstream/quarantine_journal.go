package upstream

import (
	"fmt"
	"log/slog"
	"slices"
)

// quarantinedType is a type that is quarantined for a key, and that operators were informed of.
type quarantinedType struct{ key, typeURL string }

// maxListed bounds how many quarantined types are listed.
const maxListed = 20

// setQuarantined updates the list of quarantined types.
func (j *journal) setQuarantined(key, typeURL string, on bool) {
	j.mu.Lock()
	defer j.unlock()
	if !on {
		delete(j.quarantinedTypes, quarantinedType{key, typeURL})
		return
	}
	if j.quarantinedTypes == nil {
		j.quarantinedTypes = make(map[quarantinedType]struct{})
	}
	j.quarantinedTypes[quarantinedType{key, typeURL}] = struct{}{}
}

// quarantined logs why a type of a key is requested on a stream of its own.
func (j *journal) quarantined(key, typeURL string, why error) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelWarn, "the "+j.what+" seems not to know a type and ended the stream; requesting the type on a separate stream with backoff",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)), errorAttr(why))
}

// released logs that a type that quarantined has logged is requested like all others again.
func (j *journal) released(key, typeURL string) {
	j.mu.Lock()
	defer j.unlock()
	j.logSingleLocked(slog.LevelInfo, "a type from the separate stream no longer ends streams of the "+j.what+", requesting it on the main stream again",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)))
}

// quarantinedLines lists the quarantined types, one line each.
func (j *journal) quarantinedLines() (lines []string) {
	j.mu.Lock()
	defer j.unlock()
	for s := range j.quarantinedTypes {
		lines = append(lines, fmt.Sprintf("%q of key %q", s.typeURL, s.key))
	}
	slices.Sort(lines)
	if more := len(lines) - maxListed; more > 0 {
		lines = append(lines[:maxListed:maxListed], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Quarantined lists the types that keys request on a stream of their own because a server ended a
// stream after a request for them. Each line is one type of one key; the list is cut after
// maxListed lines per server. Types and keys are quoted, since clients can choose them.
func (c *ControlPlane) Quarantined() (all []string) {
	for _, s := range c.servers {
		all = append(all, s.journal.quarantinedLines()...)
	}
	return all
}
