package config

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xdsrelay/relay/xdstest"
)

// asNobody runs f with the file permissions of a user that is not root.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread() // the user is one of the thread
	defer runtime.UnlockOSThread()
	if _, err := unix.SetfsuidRetUid(65534); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := unix.SetfsuidRetUid(0); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// openDir makes a directory that every user can reach and write.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, one := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(one, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFiles: what check finds in the files that fields refer to, each problem with its
// place, its field and what was expected.
func TestFiles(t *testing.T) {
	dir := openDir(t)
	authority := xdstest.NewAuthority(t, "test")
	write := func(name string, content []byte) string {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	issue := func(name string, end time.Time) (cert, key string) {
		c, k := authority.IssueUntil(end, "relay.example")
		return write(name+".crt", c), write(name+".key", k)
	}
	ended := time.Now().Add(-time.Minute)
	cert, key := issue("good", time.Now().Add(time.Hour))
	old, oldKey := issue("old", ended)
	ca := write("ca.crt", authority.PEM)
	write("file", []byte("no certificate"))
	for _, name := range []string{"readonly", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o300); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("CERT", cert, "KEY", key, "OLDC", old, "OLDK", oldKey, "CA", ca, "DIR", dir)

	for _, test := range []struct{ name, text, want string }{
		{"good", `
upstream: {addresses: ['cp:1'], tls: {ca_file: CA, cert_file: CERT, key_file: KEY}}
authorization: {allow_any: true}
listener: {tls: {cert_file: CERT, key_file: KEY, ca_file: CA}}
last_known_good: {store: directory, directory: DIR/kept/here}`, ""},
		{"expired", `
upstream: {addresses: ['cp:1']}
authorization: {allow_any: true}
listener: {tls: {cert_file: OLDC, key_file: OLDK}}`,
			"relay.yaml:4:29: listener.tls.cert_file: OLDC: the certificate of \"CN=relay.example\" expired at " + ended.UTC().Format(time.RFC3339) + "; expected a certificate that is valid now"},
		{"another key", `
upstream: {addresses: ['cp:1'], tls: {cert_file: CERT, key_file: OLDK}}`,
			"relay.yaml:2:50: upstream.tls.cert_file: CERT and OLDK: tls: private key does not match public key; expected a certificate in PEM form and its private key"},
		{"no authority", `
upstream: {addresses: ['cp:1'], tls: {ca_file: DIR/file}}`,
			"relay.yaml:2:48: upstream.tls.ca_file: DIR/file has no certificate in PEM form; expected at least one authority that is valid now"},
		{"expired authority", `
upstreams: [{name: main, addresses: ['cp:2']}, {name: sds, types: [Secret], addresses: ['cp:1'], tls: {ca_file: OLDC}}]`,
			"relay.yaml:2:113: upstreams[1].tls.ca_file: OLDC has no authority that is valid now: that of CN=relay.example expired at "},
		{"last good in a file", `
upstream: {addresses: ['cp:1']}
last_known_good: {store: directory, directory: DIR/file}`,
			"relay.yaml:3:48: last_known_good.directory: DIR/file is a file; expected a directory that this process can read and write"},
		{"last good below a file", `
upstream: {addresses: ['cp:1']}
last_known_good: {store: directory, directory: DIR/file/kept}`,
			"relay.yaml:3:48: last_known_good.directory: stat DIR/file/kept: not a directory; expected a directory that this process can read and write"},
		{"last good not writable", `
upstream: {addresses: ['cp:1']}
last_known_good: {store: directory, directory: DIR/readonly}`,
			"relay.yaml:3:48: last_known_good.directory: open DIR/readonly/.xdsrelay-check-"},
		{"last good cannot be made", `
upstream: {addresses: ['cp:1']}
last_known_good: {store: directory, directory: DIR/readonly/kept}`,
			"relay.yaml:3:48: last_known_good.directory: open DIR/readonly/.xdsrelay-check-"},
		{"last good unused", `
upstream: {addresses: ['cp:1']}
last_known_good: {directory: DIR/kept}`,
			"relay.yaml:3:30: last_known_good.directory: is set, but last_known_good.store is none, so the directory is unused; expected last_known_good.store: directory"},
		{"unreadable origin", `
upstream: {directory: DIR/closed}`,
			"relay.yaml:2:23: upstream.directory: open DIR/closed: permission denied; expected a directory that this process can read"},
		{"peer alone", `
upstream: {addresses: ['cp:1']}
tier: {peer: {address: 'localhost:18001'}}`,
			"relay.yaml:3:24: tier.peer.address: is set, but without tier.redis.url and tier.nodes this node is in no tier and opens no peer port; " +
				"expected tier.redis.url (or --redis) or tier.nodes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			asNobody(t, func() {
				_, err = Load(Input{File: "relay.yaml", Data: []byte(names.Replace(test.text)), Files: true})
			})
			text, _, _ := strings.Cut(errorText(err), "\n")
			if want := names.Replace(test.want); want == "" && text != "" || !strings.HasPrefix(text, want) {
				t.Errorf("Load:\n%s\nwant\n%s", errorText(err), want)
			}
		})
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".xdsrelay-check-*")); len(left) > 0 {
		t.Errorf("%s is left behind", left)
	}
}

// TestInvalidAt: a certificate is valid from its first moment to its last.
func TestInvalidAt(t *testing.T) {
	from, until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	cert := &x509.Certificate{NotBefore: from, NotAfter: until}
	for at, want := range map[time.Time]string{
		from.Add(-time.Second): "is not valid before 2026-01-01T00:00:00Z",
		from:                   "", until: "",
		until.Add(time.Second): "expired at 2026-02-01T00:00:00Z",
	} {
		if got := invalidAt(cert, at); got != want {
			t.Errorf("at %s: %q, want %q", at, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
