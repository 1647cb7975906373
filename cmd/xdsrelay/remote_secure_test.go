package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xdsrelay/relay/xdstest"
)

// TestRemoteSecure runs commands against an admin port with TLS that asks for a
// token and a certificate.
func TestRemoteSecure(t *testing.T) {
	dir := t.TempDir()
	cert, key, ca := xdstest.NewAuthority(t, "operators").WriteFiles(dir, "127.0.0.1")
	token, wrong := writeFile(t, "token", "operator-0123456789\n"), writeFile(t, "wrong", "somebody-0123456789\n")
	file := writeFile(t, "relay.yaml", strings.NewReplacer("DIR", dir, "TOKEN", token, "CERT", cert, "KEY", key, "CA", ca).Replace(`
listener: {address: "127.0.0.1:0"}
upstream: {directory: DIR}
admin: {address: "127.0.0.1:0", token_file: TOKEN, tls: {cert_file: CERT, key_file: KEY, ca_file: CA}}
`))
	p := startProgram(t, "run", "-c", file)
	at := p.address(t, "admin")
	shown := " --admin-ca " + ca + " --admin-cert " + cert + " --admin-key " + key
	nothing := filepath.Join(dir, "nothing.pem")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"nodes --admin https://" + at + shown + " --admin-token-file " + token, 0, " *", ""},
		{"status --admin https://" + at + shown + " --admin-token-file " + token, 0, "", ""},
		{"nodes --admin https://" + at + shown, 1, "", "requires a token and got no valid one"},
		{"nodes --admin https://" + at + shown + " --admin-token-file " + wrong, 1, "", "requires a token and got no valid one"},
		{"nodes --admin https://" + at + " --admin-token-file " + token, 1, "", "; set --admin-ca to a file with the CA certificates"},
		{"nodes --admin https://" + at + " --admin-ca " + ca + " --admin-token-file " + token, 1, "", "certificate required, signed by a CA of admin.tls.ca_file: set --admin-cert and --admin-key"},
		{"nodes --admin " + at, 1, "", "the server at " + at + " uses TLS: use --admin https://" + at},
		{"nodes --admin " + at + " --admin-token-file " + token, 1, "", "uses TLS: use --admin https://"},
		{"nodes --admin " + at + shown, 2, "", "need TLS: use --admin https://"},
		{"nodes --admin relay.example:1 --admin-token-file " + token, 2, "", "the token would be sent to relay.example:1 in plaintext"},
		{"nodes --admin https://" + at + " --admin-ca " + nothing, 2, "", "contains no certificate"},
		{"nodes --admin https://" + at + " --admin-cert " + cert, 2, "", "are required together"},
		{"nodes --admin https://" + at + " --admin-token-file /nowhere", 2, "", "--admin-token-file: open /nowhere"},
		{"nodes --admin https://u:p@" + at, 2, "", "expected host:port"},
		{"drain --admin https://" + at + shown + " --admin-token-file " + token, 0, "and exits", ""},
	} {
		code, stdout, stderr := command(t, strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(stdout, tc.stdout) || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit code %d, want %d; got\n%s%s", tc.args, code, tc.code, stdout, stderr)
		}
		if strings.Contains(stdout+stderr, "-0123456789") {
			t.Errorf("%s: a token is printed:\n%s%s", tc.args, stdout, stderr)
		}
	}
	if code := p.wait(t); code != 0 || strings.Contains(p.log.String(), "-0123456789") {
		t.Errorf("the node ended with %d:\n%s", code, p.log)
	}
}
