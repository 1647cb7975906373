// Package journal records the events of a client in few bytes: connects, responses and their
// answers, waits, orders of operators, and the end of the stream. A [Journal] is a bounded ring of
// one stream; [Departed] keeps those of streams that have ended, within bytes and time.
//
// A record has a length byte, a kind, a time and its fields. A response with the version of a digest
// takes 30 bytes. The answer to a response and the end of a wait are written into the record that
// they are about, so a delivery costs one record. Nothing is shared between journals, so the bound of
// a journal is exact.
//
// Package journal is pure, except for the lock of Departed.
package journal
