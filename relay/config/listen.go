package config

// Listener is where clients connect, and how.
type Listener struct {
	// Where xDS clients connect, as host:port. Port 0 takes a free one.
	Address string `yaml:"address"`
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
	return Listener{TLS: ServerTLS{Certificates: defaultCertificates()}}
}

// AllListeners are those for xDS clients, listen first, by the name
// [DefaultName].
func (c *Config) AllListeners() []OtherListener {
	return append([]OtherListener{{Name: DefaultName, Listener: c.Listen.Listener}}, c.Listeners...)
}
