// Package tierhead compares the content of one resource type of one key with the tier head, as a pure
// value: it takes no lock, reads no clock, and starts no goroutine.
//
// The nodes of a tier agree on the newest content of each type of a key: the tier head. A node may
// learn of a head before it has the content, because that arrives another way. A client arriving with
// newer content would then be sent back (K12). So a [Comparison] says whether the content is behind,
// and what proves it.
package tierhead
