package upstream

import (
	"net"
	"syscall"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
)

// TestConnectionsAreProbed: the system checks whether the other side of a quiet connection still
// exists, so that nothing depends on keepalive pings, which servers forbid (C17).
func TestConnectionsAreProbed(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	raw, err := (&net.Dialer{KeepAlive: -1}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, _, err := (probed{insecure.NewCredentials()}).Clone().ClientHandshake(t.Context(), "origin", raw); err != nil {
		t.Fatal(err)
	}
	socket, err := raw.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, want := range map[[2]int]int{
		{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}:   1,
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE}:  30,
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}: 10,
		{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT}:   3,
	} {
		if err := socket.Control(func(fd uintptr) {
			if got, err := syscall.GetsockoptInt(int(fd), option[0], option[1]); err != nil || got != want {
				t.Errorf("socket option %v is %d (%v), expected %d", option, got, err, want)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}
