package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// The ports that targets listen at. They are below those that the system gives
// to connections: a port of a target that restarts is not taken by one of its
// clients.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// freePort returns a port of loopback that nobody listens at.
func freePort(ctx context.Context) (int, error) {
	var listen net.ListenConfig
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := listen.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d was found", firstPort, lastPort)
}

// readyTimeout is how long a process may take until it listens.
const readyTimeout = 20 * time.Second

// accepts waits until somebody listens at an address, for as long as the process
// lives that should.
func accepts(ctx context.Context, addr string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("it does not listen at %s after %v", addr, readyTimeout))
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", addr); err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-retry.C:
		}
	}
}
