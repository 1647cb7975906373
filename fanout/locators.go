package fanout

import (
	"cmp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
)

// Variants of resources are not served. Who asks for them by resource locators
// is told so for each, and never served the resource of the bare name instead
// (G9). The names in the same request count as always.

// located is kept of a client that asked for variants. All of it is guarded by
// the stream's mu.
type located struct {
	errors [][]byte        // to be sent; nil for none
	told   resource.Digest // of what the client was told last
}

// size is roughly what is kept until it is told, in bytes.
func (l *located) size() (n int) {
	if l == nil {
		return 0
	}
	for _, e := range l.errors {
		n += len(e)
	}
	return n
}

// refuseWhole ends a stream of full state that asks for variants: a response of
// errors alone would read as an empty set, and one with the set as if the rest of
// the request was all right, to clients that know no errors.
func refuseWhole() error {
	return status.Error(codes.InvalidArgument, "resource_locators are not supported: subscribe by resource names")
}

// refuseLocatorsLocked makes it due to tell the client that it gets no variants.
// SotW requests state the same locators again and again, and delta clients may
// with each answer: that is answered once.
func (s *stream) refuseLocatorsLocked(ts *typeState, r *resource.Request, answer verdict) {
	if len(r.Locators) == 0 {
		return
	}
	raw, keys := make([][]byte, len(r.Locators)), make([]string, len(r.Locators))
	for i, l := range r.Locators {
		raw[i] = l.NewError(int32(codes.Unimplemented), "variants of resources are not served").Raw
		keys[i] = string(raw[i])
	}
	digest := resource.NamesDigest(keys)
	if ts.located == nil {
		ts.located = &located{}
	} else if digest == ts.located.told && (!s.delta || answer != none) {
		return
	}
	ts.located.errors, ts.located.told = raw, digest
}

// refusalLocked returns a response that tells of refused locators and nothing
// else, nil if there is nothing to tell or an answer is waited for.
func (s *stream) refusalLocked(ts *typeState, now time.Time) *body {
	if ts.located == nil || ts.located.errors == nil {
		return nil
	}
	if s.waitsLocked(ts, now) { // B9
		return nil
	}
	seen := ts.table.Seen(&ts.watcher)
	m := &resource.Message{
		Type: ts.table.Type, Version: cmp.Or(ts.version, seen.Version), ControlPlane: s.srv.identifier(seen.Source), Errors: ts.located.errors,
	}
	if s.delta {
		return &body{data: resource.AppendDelta(nil, m), aside: true}
	}
	return &body{data: resource.AppendSotW(nil, m), aside: true}
}
