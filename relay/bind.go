package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

func listenTCP(address string) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(context.Background(), "tcp", address)
}

// listenUnix makes a Unix socket, whose file goes when it is closed. A file that
// another process has left there is removed, unless it is none of a socket, or
// somebody listens on it.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := bindUnix(path, mode)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		_ = l.Close() // the error is what went wrong first
		return nil, err
	}
	return l, nil
}

// bindUnix is listenUnix where there is no file, and with less permissions than mode if
// the umask says so. Nobody has more for a moment: who has connected by then stays.
func bindUnix(path string, mode fs.FileMode) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = socketMode(fd, uint32(mode.Perm())) })
		return errors.Join(err, failed)
	}}
	return lc.Listen(context.Background(), "unix", path)
}

// removeStale removes the file of a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: expected a path where a socket can be created", path)
	}
	var d net.Dialer
	conn, err := d.DialContext(context.Background(), "unix", path)
	switch {
	case err == nil:
		_ = conn.Close() // nothing was said on it
		return fmt.Errorf("%s: another process listens on it", path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return fmt.Errorf("%s: cannot check whether another process listens on it: %w", path, err)
}
