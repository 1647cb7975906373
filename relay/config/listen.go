package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Listener is where clients connect, and how.
type Listener struct {
	// Where xDS clients connect, as host:port or unix:PATH. Port 0 takes a free one.
	Address string `yaml:"address"`
	// Who may connect to a Unix socket, as the permissions of its file: 0600 for the
	// user of this process alone, 0660 for its group, too, 0666 for everybody who can
	// reach the file.
	SocketMode FileMode `yaml:"socket_mode"`
	// Must be true to listen on anything but loopback without TLS: whoever can reach
	// the port can then read the configuration of any client.
	Plaintext bool `yaml:"plaintext"`
	// The port's certificate, and whose certificates clients show. Envoy as a client
	// speaks TLS 1.2 at most unless its configuration says more:
	// tls_params: {tls_maximum_protocol_version: TLSv1_3}.
	TLS ServerTLS `yaml:"tls"`
}

// OtherListener is a further port for clients.
type OtherListener struct {
	// What it is called in rules, in the log and in metrics: letters, digits, - and _.
	// Required, and neither "default", which is listen, nor "rest".
	Name string `yaml:"name"`
	Listener
}

// RESTName is what the port for clients that poll is called where listeners are told
// apart.
const RESTName = "rest"

// DefaultListener returns a listener where nothing is configured. It says nowhere
// where it is.
func DefaultListener() Listener {
	return Listener{SocketMode: 0o660, TLS: ServerTLS{Certificates: defaultCertificates()}}
}

// defaultListen is the listener of the section listen.
func defaultListen() Listener {
	l := DefaultListener()
	l.Address = "127.0.0.1:18000"
	return l
}

// FileMode is the permissions of a file, written in octal: 0660.
type FileMode uint32

// UnmarshalText takes up to four octal digits.
func (m *FileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || len(text) > 4 {
		return errors.New("expected permissions like 0660")
	}
	*m = FileMode(n)
	return nil
}

// String writes the permissions as UnmarshalText takes them.
func (m FileMode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// SocketPath is the path of a Unix socket; empty where an address is none.
func SocketPath(address string) string {
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return ""
	}
	return strings.TrimPrefix(path, "//") // as some write it
}

// AllListeners are those for xDS clients, listen first, by the name
// [DefaultName].
func (c *Config) AllListeners() []OtherListener {
	return append([]OtherListener{{Name: DefaultName, Listener: c.Listen.Listener}}, c.Listeners...)
}
