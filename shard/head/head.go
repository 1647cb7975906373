// Package head keeps what the nodes of a tier agree is newest of each type of each
// key: its head, in Redis. The owner of a key writes it, a moment after the fact;
// all nodes that have the key follow it and tell the cache, so that a node which is
// behind knows that it is (K12).
//
// Nothing waits for a head. Serving makes no call to Redis, and without Redis
// nobody is known to be behind.
package head

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"xdsrelay/relay/cache"
	"xdsrelay/relay/resource"
	"xdsrelay/relay/trace"
)

// Head is what is newest of one type of a key.
type Head struct {
	// Epoch numbers the claims on the key, across all nodes: who claims it later has
	// the higher one. Generation numbers the heads of one type. Of two heads the one
	// with the higher epoch is newer, and of those of one epoch the one with the
	// higher generation.
	Epoch, Generation uint64
	// Digest stands for the content, and Version is what SotW clients of the wildcard
	// are told of it.
	Digest  resource.Digest
	Version string
	// Owner is the node that wrote it, and At when.
	Owner string
	At    time.Time
	// Trace is the trace context of the update that made it, as W3C's traceparent;
	// empty where that is not traced. It says nothing of what the head is.
	Trace string
}

// newer reports whether h comes after o.
func (h Head) newer(o Head) bool {
	return h.Epoch > o.Epoch || h.Epoch == o.Epoch && h.Generation > o.Generation
}

// same reports whether h and o are one head: what they are of, not who wrote them.
func (h Head) same(o Head) bool {
	return h.Epoch == o.Epoch && h.Generation == o.Generation && h.Digest == o.Digest && h.Version == o.Version
}

// holds reports whether h is the head of a table in this state.
func (h Head) holds(e cache.Edition) bool { return h.Digest == e.Digest && h.Version == e.Version }

// wire is what of a head is in JSON. The rest stands before it, for scripts.
type wire struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
	Owner   string `json:"owner"`
	At      int64  `json:"at"` // in milliseconds of Unix time
	// Fields that came later are left out where they say nothing, and nodes that do not
	// know them read past them: the nodes of a tier are not all of one version.
	Trace string `json:"trace,omitempty"`
}

// encode is how a head is kept: epoch, generation and the rest as JSON, with blanks
// between them.
func (h Head) encode() string {
	rest, err := json.Marshal(wire{h.Version, h.Digest.Hex(), h.Owner, h.At.UnixMilli(), h.Trace})
	if err != nil {
		panic("head: strings and a number cannot be written as JSON: " + err.Error())
	}
	return fmt.Sprintf("%d %d %s", h.Epoch, h.Generation, rest)
}

// maxNumber bounds epochs and generations: scripts know no larger integers.
const maxNumber = 1 << 53

// decode reads what encode wrote. Whatever else it is given is an error.
func decode(text string) (h Head, err error) {
	epoch, rest, _ := strings.Cut(text, " ")
	generation, rest, ok := strings.Cut(rest, " ")
	if !ok {
		return h, fmt.Errorf("a head of %d bytes: expected epoch, generation and JSON", len(text))
	}
	for _, n := range []struct {
		text string
		to   *uint64
	}{{epoch, &h.Epoch}, {generation, &h.Generation}} {
		if *n.to, err = strconv.ParseUint(n.text, 10, 64); err != nil || *n.to >= maxNumber {
			return h, fmt.Errorf("a head's epoch and generation: expected numbers below 2^53")
		}
	}
	var w wire
	if err := json.Unmarshal([]byte(rest), &w); err != nil {
		return h, fmt.Errorf("a head: %w", err)
	}
	digest, err := hex.DecodeString(w.Digest)
	if err != nil || len(digest) != len(h.Digest) {
		return h, fmt.Errorf("a head's digest: expected %d bytes as hexadecimal digits", len(h.Digest))
	}
	copy(h.Digest[:], digest)
	h.Version, h.Owner, h.At = w.Version, w.Owner, time.UnixMilli(w.At)
	if trace.Valid(w.Trace) {
		h.Trace = w.Trace // a head is as good without it
	}
	return h, nil
}

// note is what nodes of earlier versions publish when they have written a head.
type note struct {
	Key string `json:"key"`
}

// decodeNote reads one.
func decodeNote(text string) (n note, err error) {
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return n, fmt.Errorf("a hint about a head: %w", err)
	}
	return n, nil
}
