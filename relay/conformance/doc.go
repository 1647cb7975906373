// Package conformance says what the relay keeps of the xDS protocol, rule by
// rule, and holds that every rule has a test. It has no code of its own, only
// tests and what they read:
//
//   - rules.txt is the catalog: each rule's id and what it asks, in a sentence.
//   - notes.txt says where the relay does otherwise, on what evidence.
//   - differences.txt lists where go-control-plane does otherwise; the test that
//     compares the two (TestDifferential of package relay) reads it, too.
//   - testdata holds conversations between an origin, a relay node and its
//     clients, each under the rules that it shows. TestConformance runs them in
//     every combination of variants that makes sense, over real gRPC and in
//     virtual time; package xdstest/conversation describes the language.
//
// A Go test anywhere in the repository holds the rules that its doc comment
// names. TestPage puts all of this on one page, docs/internals/conformance.md:
//
//	go test ./relay/conformance -update
package conformance
