package fanout

import (
	"cmp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"xdsrelay/relay/resource"
)

// The relay does not serve variants of resources. It sends an error for each resource locator that
// a client subscribes to, and never serves the resource of the bare name instead (G9). The names in
// the same request count as always.

// located is the state of a client that requested variants. The stream's mu guards all of it.
type located struct {
	errors [][]byte        // to be sent; nil for none
	sent   resource.Digest // of the errors that were sent last
}

// size returns roughly the memory of the errors that are still to be sent, in bytes.
func (l *located) size() (n int) {
	if l == nil {
		return 0
	}
	for _, e := range l.errors {
		n += len(e)
	}
	return n
}

// refuseWhole ends a full-state stream that requests variants. A response with errors alone would
// read as an empty set. A response with the set would read, to clients that do not know errors, as
// if the rest of the request was accepted.
func refuseWhole() error {
	return status.Error(codes.InvalidArgument, "resource_locators are not supported: subscribe by resource names")
}

// refuseLocatorsLocked makes the errors due for the locators in a request. SotW requests state the
// same locators again and again, and delta clients may do so with each answer: the relay sends
// errors for these once.
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
	} else if digest == ts.located.sent && (!s.delta || answer != none) {
		return
	}
	ts.located.errors, ts.located.sent = raw, digest
}

// refusalLocked returns a response with the errors for refused locators and nothing else. It is nil
// if there are none to send or the client must answer first.
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
		return &body{data: resource.AppendDelta(nil, m), kind: ofLocators}
	}
	return &body{data: resource.AppendSotW(nil, m), kind: ofLocators}
}
