package config

// Listener is where clients connect, and how.
type Listener struct {
	// Where xDS clients connect, as host:port. Port 0 takes a free one.
	Address string `yaml:"address"`
	// Must be true to listen on anything but loopback: the port has no TLS yet,
	// so whoever can reach it can read the configuration of any client.
	Plaintext bool `yaml:"plaintext"`
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

// AllListeners are those for xDS clients, listen first, by the name
// [DefaultName].
func (c *Config) AllListeners() []OtherListener {
	return append([]OtherListener{{Name: DefaultName, Listener: c.Listen.Listener}}, c.Listeners...)
}
