package config

// Admin is the HTTP port for operators. Only this machine reaches it by default, and
// whoever can is let in. Off loopback it takes tls, and a token or certificates by
// which operators show who they are.
type Admin struct {
	// Where it listens, as host:port. Port 0 takes a free one. Empty turns it off.
	Address string `yaml:"address"`
	// The certificate of the port; required off loopback. With ca_file whoever
	// connects has to show a certificate of one of these authorities, unless
	// client_auth says otherwise.
	TLS ServerTLS `yaml:"tls"`
	// A file with the token that requests have to hold, of 16 bytes at least, as
	// "Authorization: Bearer TOKEN" or as the password that a browser asks for. With
	// several, one in a line, all are good. Only /healthz and /readyz go without.
	TokenFile string `yaml:"token_file"`
	// A file with a token that lets look at the pages, but neither give orders nor
	// take profiles. Takes token_file.
	ReadTokenFile string `yaml:"read_token_file"`
	// The host names by which operators reach the port. Without TLS requests for
	// other names than these and localhost are refused, since a web site may point
	// its name at this machine; with TLS that is only so if there are any.
	Hosts []string `yaml:"hosts"`
}
