package config

// Admin is the HTTP port for operators.
type Admin struct {
	// The address, as host:port. Port 0 selects a free port. Empty turns the port off.
	Address string `yaml:"address"`
	// The certificate of the port; required for addresses other than loopback. With
	// ca_file, every connection must present a certificate of one of these authorities,
	// unless client_auth is optional or none.
	TLS ServerTLS `yaml:"tls"`
	// A file with the token that requests must carry, of at least 16 bytes: as
	// "Authorization: Bearer TOKEN" or as the password that a browser asks for. With
	// several tokens, one per line, the port accepts all. /healthz and /readyz need none.
	TokenFile string `yaml:"token_file"`
	// A file with a token that permits reading pages, but no commands and no profiles.
	// Requires token_file.
	ReadTokenFile string `yaml:"read_token_file"`
	// A file with a token that permits reading pages, and the orders about rollouts other
	// than "xdsrelay rollout promote", which skips the checks. Requires token_file.
	RolloutTokenFile string `yaml:"rollout_token_file"`
	// The host names by which operators reach the port. Without TLS, the port refuses
	// requests for names other than these and localhost, since a web site may point its
	// name at this machine. With TLS, it does so only if this list is set.
	Hosts []string `yaml:"hosts"`
}
