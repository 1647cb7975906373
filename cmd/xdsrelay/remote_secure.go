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

	"xdsrelay/relay/config"
)

// variable is the value of an environment variable.
func variable(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// baseURL parses the address of an admin port: host:port, or an http or https URL without a path.
// named is the flag or variable that it comes from.
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

// prepare returns the HTTP client for a request, and adds the token to the request. A token is sent
// over TLS or within this machine only. A nil dial means TCP.
func (t *target) prepare(req *http.Request, dial func(ctx context.Context, network, address string) (net.Conn, error)) (*http.Client, error) {
	// Without a proxy: one in the environment is for other purposes.
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dial}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	secure := req.URL.Scheme == "https"
	if !secure && (t.CAFile != "" || t.CertFile != "" || t.KeyFile != "") {
		return nil, usageError{fmt.Errorf("--admin-ca, --admin-cert and --admin-key need TLS: use --admin https://%s", req.URL.Host)}
	}
	if secure {
		config, err := t.tls()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	if t.TokenFile == "" {
		return client, nil
	}
	if !secure && !isThisMachine(req.URL.Hostname()) {
		return nil, usageError{fmt.Errorf("the token would be sent to %[1]s in plaintext: use --admin https://%[1]s", req.URL.Host)}
	}
	content, err := os.ReadFile(t.TokenFile)
	if err != nil {
		return nil, usageError{fmt.Errorf("--admin-token-file: %w", err)}
	}
	token, _, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	return client, nil
}

// tls reads the files for TLS.
func (t *target) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		content, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-ca: %w", err)}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(content) {
			return nil, usageError{fmt.Errorf("--admin-ca: %s contains no certificate in PEM format", t.CAFile)}
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, usageError{errors.New("--admin-cert and --admin-key are required together: set both or neither")}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--admin-cert: %w", err)}
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

// isThisMachine reports whether data for a host does not leave this machine.
func isThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
