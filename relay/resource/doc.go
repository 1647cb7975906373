// Package resource holds xDS resources in wire form and the wire records of
// the discovery protocol.
//
// A resource's body stays the opaque bytes that the origin sent: the relay
// reads the envelope and the name and nothing else, so that hashes, unknown
// fields and extensions survive (D2, A7). The one exception is a peek into a
// Cluster for the name of its endpoint set, which make-before-break needs
// (E3).
//
// Everything here is pure: no goroutines, no I/O, no clocks. Values handed out
// are immutable and may be shared between goroutines.
package resource
