// Package xdsget gets from an xDS server what a client with a certain Node gets, for people who ask
// about it. A [Session] subscribes to what it is asked for, acknowledges all that it can decode, or
// rejects types on demand, and follows references as an Envoy does: from clusters to endpoints and
// secrets, from listeners to routes, scoped routes, extensions and secrets, and from routes to
// clusters where these are not subscribed to as a whole.
//
// A session has one aggregated stream, or one stream per type. It connects again when a stream ends,
// until [Session.Close]. [Session.Wait] returns when all that was asked for and followed has arrived,
// or the server has reported that it does not exist; [Session.State] is what the session has.
//
// [Compare] finds the differences between two sessions, normally of a relay and its control plane.
//
// What State and Compare return is redacted, and may be shown. Texts in it may contain any characters.
package xdsget
