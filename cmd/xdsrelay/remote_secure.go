package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"xdsrelay/relay/config"
)

// rights is what a command shows to an admin port, and by what it knows the right
// one.
type rights struct {
	token, ca, cert, key string // files
}

// add adds the flags to a command.
func (f *rights) add(cmd *cobra.Command, env []string) {
	flags := cmd.Flags()
	flags.StringVar(&f.token, "admin-token-file", variable(env, config.CLITokenFile), "a `FILE` with the token that the admin port asks for")
	flags.StringVar(&f.ca, "admin-ca", "", "a `FILE` with the authorities that the admin port's certificate may come from, instead of the system's")
	flags.StringVar(&f.cert, "admin-cert", "", "a `FILE` with the certificate to show to the admin port")
	flags.StringVar(&f.key, "admin-key", "", "a `FILE` with the key of that certificate")
}

// variable is the value of an environment variable.
func variable(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// baseURL reads the address of an admin port, which a flag or a variable has named:
// host:port, or a URL of http or https with nothing more.
func baseURL(named, address string) (*url.URL, error) {
	wrong := usageError{fmt.Errorf("%s: got %q, expected host:port, like %s, or https://host:port", named, address, config.Default().Admin.Address)}
	scheme, hostport, ok := strings.Cut(address, "://")
	if !ok {
		scheme, hostport = "http", address
	}
	host, port, err := net.SplitHostPort(strings.TrimSuffix(hostport, "/"))
	if err != nil || port == "" || scheme != "http" && scheme != "https" || strings.ContainsAny(host, "/@?# ") {
		return nil, wrong
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}, nil
}

// prepare makes the client for a request, and adds the token to the request. A token
// goes over TLS, or does not leave the machine. A nil dial means TCP.
func (f *rights) prepare(req *http.Request, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*http.Client, error) {
	// Not by a proxy, which could be in the environment for other purposes.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	secure := req.URL.Scheme == "https"
	if !secure && (f.ca != "" || f.cert != "" || f.key != "") {
		return nil, usageError{errors.New("--admin-ca, --admin-cert and --admin-key are for TLS: expected --admin https://host:port")}
	}
	if secure {
		config, err := f.tls()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	if f.token == "" {
		return client, nil
	}
	if !secure && !staysHere(req.URL.Hostname()) {
		return nil, usageError{fmt.Errorf("the token would go to %s in plaintext: expected --admin https://host:port", req.URL.Host)}
	}
	content, err := os.ReadFile(f.token)
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin-token-file: %w", err)}
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	return client, nil
}

// tls reads the files.
func (f *rights) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.ca != "" {
		content, err := os.ReadFile(f.ca)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-ca: %w", err)}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, usageError{fmt.Errorf("--admin-ca: %s holds no certificate in PEM form", f.ca)}
		}
	}
	if (f.cert == "") != (f.key == "") {
		return nil, usageError{errors.New("--admin-cert and --admin-key are required together: set both or neither")}
	}
	if f.cert != "" {
		cert, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-cert: %w", err)}
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// staysHere tells whether what is sent to a host does not leave the machine.
func staysHere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
