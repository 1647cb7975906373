package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Listener is a port for xDS clients.
type Listener struct {
	// The address for xDS clients, as host:port or unix:PATH. Port 0 selects a free
	// port.
	Address string `yaml:"address"`
	// The permissions of a Unix socket, in quotes: "0600" for the user of this process,
	// "0660" for its group, too, "0666" for everyone who can reach the file.
	SocketMode FileMode `yaml:"socket_mode"`
	// Allows an address other than loopback without TLS. Every process that reaches the
	// port can then read the configuration of any client.
	AllowPlaintext bool `yaml:"allow_plaintext"`
	// The certificate of the port, and the client certificates it accepts.
	TLS ServerTLS `yaml:"tls"`
}

// NamedListener is one of several ports for xDS clients.
type NamedListener struct {
	// The name of this port in rules, in the log and in metrics: letters, digits, - and
	// _. Required and unique; not "rest".
	Name string `yaml:"name"`
	Listener
}

// RESTName is the name of the port for polling clients where listeners have names.
const RESTName = "rest"

// DefaultListener returns the defaults of a listener. It lacks an address.
func DefaultListener() Listener {
	return Listener{SocketMode: 0o660, TLS: ServerTLS{Certificates: clientCertificates()}}
}

// defaultPort is the default of the section listener.
func defaultPort() Listener {
	l := DefaultListener()
	l.Address = "127.0.0.1:18000"
	return l
}

// FileMode is the permissions of a file, written as octal text: "0660".
type FileMode uint32

// UnmarshalText takes up to four octal digits.
func (m *FileMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || len(text) > 4 {
		return errors.New(`expected permissions in quotes, like "0660"`)
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

// AllListeners returns the entries of listeners, or else the section listener under the
// name [DefaultName].
func (c *Config) AllListeners() []NamedListener {
	if len(c.Listeners) > 0 {
		return c.Listeners
	}
	return []NamedListener{{Name: DefaultName, Listener: c.Listener}}
}

// ListenerPath is the path of the listener at index i of [Config.AllListeners].
func (c *Config) ListenerPath(i int) string {
	return pathOf("listener", len(c.Listeners) > 0, i)
}

// pathOf is the path of an item of a list, or of the section that is the shorthand for a
// list of one.
func pathOf(section string, list bool, i int) string {
	if !list {
		return section
	}
	return section + "s[" + strconv.Itoa(i) + "]"
}
