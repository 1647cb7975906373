// Package relay is a relay node: it puts together the cache, an origin, the xDS
// server and the admin port as a configuration says, runs them, and stops them
// so that clients move on without a storm.
package relay
