package robust

import (
	"io"
	"net"
	"path/filepath"
	"sync"

	"xdsrelay/relay/xdstest"
)

// originSocket is where nodes find the origin: a socket in their own folder, so that
// all have it at one address, and one can go on where another was, although each has a
// proxy of its own.
const originSocket = "origin.sock"

// newSocket listens at a socket in a folder, and leads to an address.
func newSocket(t xdstest.TB, dir, to string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(dir, originSocket)) //nolint:noctx // it takes no time
	if err != nil {
		t.Fatalf("%v", err)
	}
	var links sync.WaitGroup
	links.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // closed
			}
			links.Go(func() { link(from, to) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		links.Wait() // nodes have ended before
	})
}

// link copies until either side ends.
func link(from net.Conn, to string) {
	defer from.Close()
	conn, err := net.Dial("tcp", to) //nolint:noctx // loopback: it is refused at once, or there
	if err != nil {
		return
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, from)
		_ = conn.Close()
	}()
	_, _ = io.Copy(from, conn)
	_ = from.Close()
	<-done
}
