package relay

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUnixSocketAtBirth: nobody who may not connect to a Unix socket can do so in the
// moment before its permissions are changed.
func TestUnixSocketAtBirth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "xds.sock")
	l, err := bindUnix(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&^0o600 != 0 {
		t.Errorf("%v, %v: expected no more than 0600", info.Mode(), err)
	}
}
