// Package fleet simulates thousands of xDS clients in one process. They behave
// as Envoys do: they ask for all clusters and listeners, and for the endpoints
// and routes that they learn from them; they acknowledge, come back after a
// broken connection with what they hold, and forget nothing in between. Some
// shares can be made slow, stuck, rejecting or restless.
//
// They also check what they are told, as they go, and count what breaks the
// protocol; see [Kind]. What is served has to be that of package content.
//
// A client costs a few kilobytes and some microseconds per response. Each
// connection has one goroutine, which owns its clients; clients hold no copies
// of what they were sent. All clients of a key share a view: what a response
// says is read once, and so is what it does to a client that was in a certain
// state. A client's own part is a pointer to the state that it is in, and a
// check of what is its alone: the nonce.
//
// It is not made of the clients of package xdsclient, which check more, each on its own,
// and copy what they hold: tens of thousands of them would cost more than the server that
// is measured, and here the cost of a client is known.
package fleet
