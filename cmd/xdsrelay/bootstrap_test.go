package main

import (
	"strings"
	"testing"
)

// TestBootstrap: the flags reach the bootstraps, whose content relay/bootstrap tests.
func TestBootstrap(t *testing.T) {
	tls := "--relay a.example:18000,b.example:18000 --node-id n-1 --node-cluster shop --region eu --zone eu-1 --sub-zone r7 --ca /ca.crt --cert /tls.crt --cert-key /tls.key"
	for _, tc := range []struct {
		args string
		want []string
	}{
		{"envoy " + tls + " --server-name relay --variant sotw", []string{"a.example", "b.example", "n-1", "shop", "eu", "eu-1", "r7", "/ca.crt", "/tls.crt", "/tls.key", "sni: relay", "api_type: GRPC\n"}},
		{"envoy --relay a.example:18000 --node-id n-1", []string{"api_type: DELTA_GRPC\n"}},
		{"grpc " + tls, []string{"a.example:18000", "b.example:18000", "n-1", "shop", "eu", "eu-1", "r7", "/ca.crt", "/tls.crt", "/tls.key"}},
		{"grpc --relay a.example:18000 --node-id n-1 --server-features fail_on_data_errors,resource_timer_is_transient_error", []string{`"fail_on_data_errors",`, `"resource_timer_is_transient_error"`}},
		{"grpc --relay a.example:18000 --node-id n-1 --tls", []string{`"type": "tls"`}},
	} {
		code, stdout, stderr := command(t, append([]string{"bootstrap"}, strings.Fields(tc.args)...)...)
		if code != exitOK || stderr != "" {
			t.Errorf("%s: exit code %d, %s", tc.args, code, stderr)
		}
		for _, want := range tc.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q in\n%s", tc.args, want, stdout)
			}
		}
	}
	for args, want := range map[string]string{
		"envoy --node-id x":                                    `required flag(s) "relay" not set`,
		"envoy --relay a --node-id x":                          "expected host:port",
		"envoy --relay a:1 --node-id x --variant v":            "delta or sotw",
		"grpc --relay a:1 --node-id x --cert f":                "only one of them",
		"grpc --relay a:1 --node-id x --server-features f":     `"f", expected resource_timer_is_transient_error or fail_on_data_errors`,
		"envoy --relay a:1 --node-id x --server-features f":    "unknown flag: --server-features",
		"grpc --relay a:1 --node-id x --variant sotw":          "unknown flag: --variant",
		"grpc --relay a:1 --node-id x --server-name elsewhere": "unknown flag: --server-name",
	} {
		code, stdout, stderr := command(t, append([]string{"bootstrap"}, strings.Fields(args)...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, want %q", args, code, stderr, want)
		}
	}
}
