// Package upstream keeps the cache in step with an origin: a control plane that
// speaks xDS, or a directory of files.
//
// An origin's Run method is given one [cache.Feed] per aggregation key, on a
// goroutine of its own. It asks for what the feed's clients want, applies what
// the origin answers, and never waits for a client (K1). Losing the origin
// changes nothing in the cache (C14).
//
// # Control plane
//
// A [ControlPlane] holds one connection per address and, on it, one ADS stream
// per key, SotW or delta. Two goroutines belong to a key: one receives, decodes
// envelopes and paces reconnects (link); the other owns all of the key's state,
// applies, and is the only one that sends (runner). The receiver hands over one
// response at a time, so nothing is queued that the transport does not bound.
//
// The state has three ages. What a stream has asked for and its nonces end with
// the stream (session). Which server the cache reflects, and what version of
// which server was accepted, last until the key goes idle (runner). Whether an
// address can be reached is shared by all keys (server): a key that cannot
// connect waits for the connection and does not poll it, so a thousand keys of
// an origin that is down cost one connection attempt per backoff interval.
//
// # Load reports
//
// What clients report of the load is a stream of its own per key, beside the
// configuration's on the same connection, for as long as the key has clients
// that report (reporter). It knows nothing of the configuration's and shares
// only its pace and its choice of the server.
//
// Logs are written per address and rationed; what belongs to a single key is
// shown by the cache's [cache.Group.Upstream].
package upstream
