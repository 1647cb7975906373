// Package upstream keeps the cache synchronized with an origin: a control plane that supports xDS,
// or a directory of files.
//
// The cache calls the Run method of an origin with one [cache.Feed] per aggregation key, on a
// goroutine of its own. Run requests what the clients of the feed want, applies the responses, and
// never waits for a client (K1). Losing the connection to the origin changes nothing in the cache
// (C14).
//
// # Control plane
//
// A [ControlPlane] has one connection per address and, on it, one ADS stream per key, SotW or delta.
// Two goroutines serve a key. One opens the stream, receives and decodes responses, and paces
// reconnects (serverStream); a further server, or a second stream for a quarantined type, has one
// of its own. The other owns all state of the key, applies responses, and is the only one that
// sends (runner). The receiver hands over one response at a time, so the transport bounds what is
// queued.
//
// State has three lifetimes. The subscriptions of a stream and its nonces last as long as the
// stream (session). The server that the cache reflects, and the versions that were accepted from
// it, last until the key is idle (runner, package resume). All keys share whether an address can be reached
// (server): a key without a connection waits for it and does not poll, so a thousand keys of an
// unreachable control plane cost one connection attempt per backoff interval.
//
// The way of a response: serverStream.runStream receives it, runner.handle accepts the event,
// runner.respond applies it to the feed, and session.reply sends the ACK or NACK. The way of a
// demand: [cache.Feed.News] wakes the runner, runner.demand takes the demand, and runner.ask turns
// it into requests. Package conversation decides for each type of a stream which requests a demand
// takes, and which reply is owed.
//
// A server may end the stream because of one type. Then the type is quarantined: a second stream,
// the probe stream, requests it until it has proven harmless. Package quarantine decides that.
//
// # Load reports
//
// The load reports of clients use a stream of their own per key, on the connection of the
// configuration streams, for as long as the key has clients that report (reporter). It shares only
// the pace and the choice of the server with the configuration.
//
// # Logs
//
// Logs are written per address and rationed. [cache.Group.Upstream] shows the state of a single
// key.
//
// # Files
//
//	control plane        controlplane.go, config.go, server.go, reach.go, keepalive.go, codec.go
//	a key's state        runner.go, timers.go, stale.go, absence.go, package resume
//	one stream           server_stream.go, session.go, retry.go, pauses.go
//	requests             answer.go, request.go, divide.go, package conversation
//	responses            answer.go, nack.go, verdict.go, package conversation
//	quarantined types    quarantine.go, probe.go, package quarantine
//	other nodes          follow.go
//	load reports         load.go, load_nearest.go
//	directory            directory.go, directory_run.go, directory_snapshot.go, directory_merge.go,
//	                     directory_load.go, directory_watch.go
//	file formats         directory_parse.go, directory_errors.go
//	logs and metrics     journal.go, quarantine_journal.go, load_journal.go, metrics.go, load_metrics.go,
//	                     directory_metrics.go
package upstream
