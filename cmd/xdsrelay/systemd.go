package main

import (
	"net"
	"os"
)

// notifySystemd sends a state of this process, such as READY=1, to the service manager that started
// it, where that asks for it with NOTIFY_SOCKET (Type=notify). Elsewhere it does nothing. Nothing
// depends on the notification in this process, so an error is not reported: systemd itself reports
// a service that never becomes ready. See sd_notify(3).
func notifySystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // @ begins an abstract name
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte(state))
	_ = conn.Close()
}
