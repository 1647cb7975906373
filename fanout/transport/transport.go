// Package transport is the boundary between the xDS protocol and the server that carries it. Above
// it, package fanout knows no gRPC but statuses; below it, an adapter such as fanout/grpcgo knows no
// xDS. Both sides only know the types of this package.
//
// The adapter makes a [Call] for each stream that a client opens, and offers it to an [Open]. That
// refuses the call or returns its [Client], which the adapter then calls: for the first part of a
// long first request, for each whole request, when there is room for the next message, and at the
// end. The client sends with its call, and ends it.
package transport

import (
	"net"
	"time"

	"xdsrelay/fanout/authz"
)

// Call is a stream of a client as the protocol sees it. No method blocks. All methods are safe for
// concurrent use, except where they say otherwise.
type Call interface {
	// Addr returns the address of the client; nil if it is unknown.
	Addr() net.Addr
	// Identity returns what the connection proves about the client. It reads the certificate each
	// time.
	Identity() authz.Client
	// Header returns the values of a header that the client sent.
	Header(name string) []string
	// HeaderSize returns the size of the client's headers without those that HTTP/2 itself defines,
	// counted like its setting (RFC 9113, 6.5.2).
	HeaderSize() int

	// Compress announces to the client that messages may be compressed with gzip. It reports
	// whether the client accepts that; otherwise no message may be compressed. It must be called
	// before the first Send, and not at the same time.
	Compress() bool
	// Send accepts m, which must not be changed any more. If the call is not writable after that, the
	// next Send must wait for [Client.Writable], which another goroutine calls; if the message could
	// not be sent, the call ends instead. unanswered is the size of the earlier messages that the client
	// has not answered, so that it may not have read them. The caller makes sure that only one Send
	// runs at a time, and none after a method of the client has returned an error or the reason for
	// which the call ends.
	Send(m *Message, unanswered int) (writable bool)
	// End ends the call: the client gets reason, which is a gRPC status or nil for OK. Only the
	// first End counts.
	End(reason error)
	// Ended reports whether End was called.
	Ended() bool
	// Done is closed when the call has ended, or its connection.
	Done() <-chan struct{}
}

// Client is the protocol's side of a call. The methods other than Writable never run at the same
// time.
type Client interface {
	// Begin is called with the beginning of a first request that is not small, before the rest of
	// it is read: at most [FirstBytes] of size bytes. An error ends the call with that status.
	Begin(b []byte, size int) error
	// Request processes a whole request; b is valid until it returns. The next request is read
	// after the pause. An error ends the call with that status, after the pause.
	Request(b []byte) (pause time.Duration, err error)
	// Writable says that the transport has room for the next message. It is called once for each
	// Send after which the call was not writable, unless the call ends.
	Writable()
	// NoMoreRequests is called if no further request can be read: with the reason of [Call.End], else with
	// [io.EOF] if the client has sent its last, else with a gRPC status: Canceled if the client, or the
	// network, has ended the call. It returns the status with
	// which the call ends after the pause.
	NoMoreRequests(err error) (pause time.Duration, reason error)
	// Closed is the last. Nothing is sent to the client any more.
	Closed()
}

// Open returns the client of a call, or the gRPC status with which the call is refused, which may
// be an [Away].
type Open func(Call) (Client, error)

// Away refuses a call, and asks its connection to close so that the client connects to another node.
type Away struct {
	// Reason is the gRPC status for the client.
	Reason error
}

// Error implements error.
func (a *Away) Error() string { return a.Reason.Error() }

// Unwrap returns the reason.
func (a *Away) Unwrap() error { return a.Reason }

// FirstBytes is how much of a first request is passed to [Client.Begin], in bytes.
const FirstBytes = 64 << 10

// SmallRequest is the size of the largest first request that is small, in bytes. The decoded form
// may take a hundred times as much, which is less than four times FirstBytes.
const SmallRequest = 2 << 10
