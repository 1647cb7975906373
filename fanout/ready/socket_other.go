//go:build !unix

package ready

import "net"

// newSocket returns nil: sockets are read like any other connection.
func newSocket(net.Conn) Reader { return nil }
