// Package h2 is a gRPC client over HTTP/2 for those who need ten thousand of
// them in one process: a connection without traffic holds a goroutine and about
// a kilobyte, and no buffers.
//
// A [Conn] belongs to the goroutine that runs [Conn.Serve]. Everything else is
// called on that goroutine, from within a [Receiver] or by way of [Conn.Do], so
// there are no locks. What is sent while a batch of frames is looked at leaves
// in one write.
//
// It does what a client of long streams needs: flow control in both directions,
// SETTINGS, PING, GOAWAY, RST_STREAM, trailers and compressed messages. Server
// push, priorities and dynamic header tables are declined.
package h2
