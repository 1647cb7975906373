// Package csds says who has what: it is the client status discovery service, for
// programs that know it from other xDS servers and clients.
//
// The relay is both. As a server it tells of each client's stream how the client
// stands with what it subscribes to; as a client it tells of each aggregation key
// how it stands itself with what it asks the origin for (K20). A config of the
// first kind has config_status, one of the second has client_status; both have
// the key as their client_scope.
//
// An answer is made piece by piece, since there may be thousands of clients with
// thousands of resources. A config that is too large for one message is
// continued in the next, under the same node and scope. The state goes on
// changing meanwhile: an answer is true piece by piece, and nothing waits for it.
//
// Secrets are never shown, only that they exist, and at which version; nor is
// what the origin forbids to share (K17), or what is a single client's own (K6). Of
// other resources, of Nodes and of errors that is left out which [redact] hides; nor
// can Nodes be asked for by it.
package csds
