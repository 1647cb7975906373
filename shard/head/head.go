// Package head stores tier heads in Redis: the newest generation and digest that the nodes of a
// tier agree on, for each type of each key. The owner of a key writes the head, shortly after a
// change. While the owner is silent, a node that asks the control plane itself advances it. All nodes that have the key follow it and report it to the cache, so that a node that is
// behind detects that it is (K12).
//
// Nothing waits for a head. Serving clients makes no call to Redis, and without Redis no node is
// known to be behind.
//
// A key has an epoch, which each claim raises: the scripts reject a write of an older epoch, so a
// node that lost a key cannot overwrite the heads of its new owner. Followers are notified by
// hints; they also poll the stamps of buckets of keys, since any hint may be lost.
//
// # Files
//
//	heads        head.go (format), script.go (scripts in Redis), sign.go (signatures)
//	the node     heads.go (configuration and API)
//	owner        own.go (what to write), queue.go, writer.go (claims and writes)
//	no owner     advance.go (writes without a claim)
//	follower     follow.go (reads), watch.go (hints and polling), board.go, bucket.go (stamps)
//	operations   check.go, metrics.go
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

// Head is the newest state of one type of a key.
type Head struct {
	// Epoch numbers the claims of the key, across all nodes: a later claim has the higher number.
	// Generation numbers the heads of one type. Of two heads the one with the higher epoch is
	// newer, and within an epoch the one with the higher generation.
	Epoch, Generation uint64
	// Digest identifies the content, and Version is the version that SotW clients of the wildcard
	// get for it.
	Digest  resource.Digest
	Version string
	// Owner is the node that wrote it, and At when.
	Owner string
	At    time.Time
	// Trace is the trace context of the update that caused it, as W3C traceparent; empty if it is
	// not traced. It is not part of the head's identity.
	Trace string
}

// newer reports whether h is newer than o.
func (h Head) newer(o Head) bool {
	return h.Epoch > o.Epoch || h.Epoch == o.Epoch && h.Generation > o.Generation
}

// same reports whether h and o are the same head, regardless of the writer.
func (h Head) same(o Head) bool {
	return h.Epoch == o.Epoch && h.Generation == o.Generation && h.Digest == o.Digest && h.Version == o.Version
}

// holds reports whether h is the head of a table in this state.
func (h Head) holds(e cache.TableDigest) bool { return h.Digest == e.Digest && h.Version == e.Version }

// wire is the JSON part of a head. The rest precedes it, for scripts.
type wire struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
	Owner   string `json:"owner"`
	At      int64  `json:"at"` // in milliseconds of Unix time
	// Later additions are omitted if empty, and nodes that do not know them ignore them: the nodes
	// of a tier may have different versions.
	Trace string `json:"trace,omitempty"`
}

// encode returns the stored form of a head: epoch, generation and the rest as JSON, separated by
// spaces.
func (h Head) encode() string {
	rest, err := json.Marshal(wire{h.Version, h.Digest.Hex(), h.Owner, h.At.UnixMilli(), h.Trace})
	if err != nil {
		panic("head: strings and a number cannot be written as JSON: " + err.Error())
	}
	return fmt.Sprintf("%d %d %s", h.Epoch, h.Generation, rest)
}

// maxNumber bounds epochs and generations: scripts support no larger integers.
const maxNumber = 1 << 53

// decode decodes the result of encode. Any other text is an error.
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
		h.Trace = w.Trace // a head is valid without it
	}
	return h, nil
}

// legacyHint is what nodes of earlier versions publish when they have written a head.
type legacyHint struct {
	Key string `json:"key"`
}

// decodeLegacyHint decodes one.
func decodeLegacyHint(text string) (n legacyHint, err error) {
	if err := json.Unmarshal([]byte(text), &n); err != nil {
		return n, fmt.Errorf("a hint about a head: %w", err)
	}
	return n, nil
}
