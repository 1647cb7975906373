package upstream

import (
	"fmt"
	"log/slog"
	"slices"
)

// setAside is a type of a key that is set apart, and said to be.
type setAside struct{ key, typeURL string }

// mostAside bounds what is listed of them.
const mostAside = 20

// note keeps the list of what is set apart.
func (j *journal) note(key, typeURL string, apart bool) {
	j.mu.Lock()
	defer j.unlock()
	if !apart {
		delete(j.aside, setAside{key, typeURL})
		return
	}
	if j.aside == nil {
		j.aside = make(map[setAside]struct{})
	}
	j.aside[setAside{key, typeURL}] = struct{}{}
}

// setApart notes why a type of a key is asked for on a stream of its own.
func (j *journal) setApart(key, typeURL string, why error) {
	j.mu.Lock()
	defer j.unlock()
	j.saySingleLocked(slog.LevelWarn, "the "+j.what+" seems not to know a type and ended the stream, asking for it on another one with backoff",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)), errorAttr(why))
}

// rejoined notes that a type whose setApart was said is like all others again.
func (j *journal) rejoined(key, typeURL string) {
	j.mu.Lock()
	defer j.unlock()
	j.saySingleLocked(slog.LevelInfo, "a type that was asked for on another stream does no harm to the "+j.what+", asking for it like for all others",
		slog.String("key", shorten(key, 512)), slog.String("type", shorten(typeURL, 512)))
}

// listAside lists what is set apart, in lines.
func (j *journal) listAside() (lines []string) {
	j.mu.Lock()
	defer j.unlock()
	for s := range j.aside {
		lines = append(lines, fmt.Sprintf("%q of key %q", s.typeURL, s.key))
	}
	slices.Sort(lines)
	if more := len(lines) - mostAside; more > 0 {
		lines = append(lines[:mostAside:mostAside], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// Apart lists the types that keys ask for on a stream of their own, since a server
// ended one on which it was asked for them, in lines; of many only some. Types and
// keys are quoted, as clients can choose them.
func (c *ControlPlane) Apart() (all []string) {
	for _, s := range c.servers {
		all = append(all, s.journal.listAside()...)
	}
	return all
}
