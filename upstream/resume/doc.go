// Package resume decides what a key may still say to a control plane about content that the cache
// has from earlier streams, as functions of values: it has no lock, no clock and no I/O. The
// caller, package upstream, owns each [Content] on one goroutine.
//
// Versions are words of the server that sent them. A key has several servers, one after the other,
// and it has times in which it has no stream at all, or content from a file. So each version that
// the cache has is in one of three positions towards a server that is asked ([Claim]):
//
//   - It may be repeated (ByVersion): the server itself has sent it, on this stream or on one just
//     before. The server then sends what is newer, and reports removals.
//   - The name may be repeated, the version not (ByName): the server is the one that has sent it, but
//     so long ago that it may have started again, with other versions. For a name in
//     initial_resource_versions the server sends the present state or a removal; for one that is
//     missing there it would never send a removal.
//   - Nothing may be said (Omitted): another server has sent it.
//
// Which of these applies follows from the [Phase] of the key, from whether the server that is asked
// is the one of the phase, and from whether the resource is marked: it is from earlier content and
// the present server has not mentioned it since. [Content.Claims] holds the table. Rules C1 and C8.
package resume
